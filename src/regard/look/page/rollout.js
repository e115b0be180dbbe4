/**
 * Attention rollout (Abnar & Zuidema 2020): how much of each item of the first layer reaches each item of a later
 * one, if half of a layer's output comes through attention and half through the residual.
 *
 *     R_0 = I,   R_l = A_l R_{l−1},   A_l = rows of (½ mean over heads + ½ I), made to sum to one
 *
 * For a pair of texts both are followed together; the picture may show one block.
 */

import { chosen } from "./chosen.js";
import { element } from "./elements.js";
import { Explorer } from "./explorer.js";
import { Matrix } from "./matrix.js";
import { Picture } from "./picture.js";
import { product } from "./product.js";

/** @type {import("./views.js").View} */
export const rollout = {
  name: "rollout",
  label: "Rollout",
  about:
    "Attention multiplied through the layers up to the chosen one, half of it by the residual (Abnar & Zuidema 2020).",
  head: "none",
  groups: stacks,
  available: (record) => stacks(record).length > 0,
  create: (host, record, page) => new Rollout(host, record, page),
};

/** @param {import("./record.js").Record} record */
function stacks(record) {
  return record.groups.filter(
    ({ kind, query, key, maps }) =>
      kind === "self" &&
      query === key &&
      maps.every(({ raw }) => !raw.part) &&
      maps.every(({ whole }) => whole.queries === whole.keys && whole.queries === maps[0].whole.queries),
  );
}

/**
 * One layer more.
 *
 * @param {Matrix} attention mean over heads
 * @param {Matrix | null} before what has reached this layer; null for the items themselves
 * @returns {Promise<Matrix>}
 */
export async function rolled(attention, before) {
  const { rows } = attention;
  const mixed = new Matrix(new Float32Array(rows * rows), rows, rows);
  for (let row = 0; row < rows; row++) {
    const [own, from] = [mixed.row(row), attention.row(row)];
    let sum = 0.5;
    for (let column = 0; column < rows; column++) sum += from[column] / 2;
    for (let column = 0; column < rows; column++) own[column] = from[column] / 2 / sum;
    own[row] += 0.5 / sum;
  }
  return before ? product(mixed, before) : mixed;
}

class Rollout {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.page = page;
    this.asked = "";
    /** @type {(import("./explorer.js").Explored & import("./picture.js").Pictured) | null} */
    this.explored = null;
    /** @type {Map<string, Matrix>} what has reached each layer, by the name of its map */
    this.reached = new Map();
    this.waiting = element("p", { class: "hint", role: "status" });
    this.host = element("div", { class: "within" });
    host.append(this.waiting, this.host);
    /** @type {Explorer | Picture | null} */
    this.shower = null;
  }

  /**
   * What shows maps of a side: a picture for patches, otherwise a heat map.
   *
   * @param {string} side
   */
  showerOf(side) {
    const Wanted = this.record.sides[side]?.kind === "patches" ? Picture : Explorer;
    if (this.shower instanceof Wanted) return this.shower;
    this.shower?.destroy();
    this.host.replaceChildren();
    this.shower =
      Wanted === Picture
        ? new Picture(this.host, this.record, this.page)
        : new Explorer(this.host, this.page, "attention rollout");
    return this.shower;
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const { group, layer, map } = chosen(stacks(this.record), state);
    if (map.id !== this.asked) {
      this.asked = map.id;
      this.explored = null;
      const matrix = await this.upTo(group, layer);
      if (map.id !== this.asked) return;
      this.waiting.textContent = "";
      const layers = group.layers();
      this.explored = {
        matrix: map.whole === map ? matrix : matrix.block(map.rowRange, map.columnRange),
        rows: map.labels,
        columns: map.columns,
        caption: `rollout of ${group.label} through layers ${layers[0]} to ${layers[layer]}`,
        kind: group.kind,
        query: group.query,
        key: group.key,
        who: (row) => map.who(row),
        part: map.whole !== map,
        rowRange: map.rowRange,
        columnRange: map.columnRange,
        note: group.maps.every(({ raw }, at) => raw.layer === null || raw.layer === at)
          ? ""
          : "Not every layer is in this record: the rollout is over those that are.",
      };
    }
    if (this.explored) this.showerOf(group.key).show(this.explored, state);
  }

  /**
   * @param {import("./record.js").Group} group
   * @param {number} layer
   * @returns {Promise<Matrix>} of the whole maps
   */
  async upTo(group, layer) {
    const { whole } = group.maps[layer];
    const known = this.reached.get(whole.name);
    if (known) return known;
    const before = layer > 0 ? await this.upTo(group, layer - 1) : null;
    this.waiting.textContent = `following attention through the layers … ${layer + 1} of ${group.maps.length}`;
    const matrix = await rolled(await whole.matrix("mean"), before);
    this.reached.set(whole.name, matrix);
    return matrix;
  }

  destroy() {
    this.shower?.destroy();
  }
}
