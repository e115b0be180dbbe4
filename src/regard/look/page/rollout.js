/**
 * Attention rollout (Abnar & Zuidema 2020): how much of each item of the first layer reaches each item of a later
 * one, if half of what a layer hands on comes through attention and half goes straight past it.
 *
 *     R_0 = I,   R_l = A_l R_{l−1},   A_l = rows of (½ mean over heads + ½ I), made to sum to one
 */

import { chosen } from "./chosen.js";
import { element } from "./elements.js";
import { Explorer } from "./explorer.js";
import { Matrix } from "./matrix.js";

/** @type {import("./views.js").View} */
export const rollout = {
  name: "rollout",
  label: "Rollout",
  about:
    "Attention followed through the layers up to the chosen one, half of it passing each by (Abnar & Zuidema 2020).",
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
      maps.every((map) => map.queries === map.keys && map.queries === maps[0].queries),
  );
}

/**
 * One layer more.
 *
 * @param {Matrix} attention mean over heads
 * @param {Matrix | null} before what has reached this layer; null for the items themselves
 * @returns {Matrix}
 */
export function rolled(attention, before) {
  const { rows } = attention;
  const mixed = new Matrix(
    attention.values.map((value) => value / 2),
    rows,
    rows,
  );
  for (let row = 0; row < rows; row++) {
    const own = mixed.row(row);
    own[row] += 0.5;
    const sum = own.reduce((total, value) => total + value, 0);
    for (let column = 0; column < rows; column++) own[column] /= sum;
  }
  return before ? mixed.times(before) : mixed;
}

class Rollout {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.asked = "";
    /** @type {import("./explorer.js").Explored | null} */
    this.explored = null;
    /** @type {Map<string, Matrix>} what has reached each layer, by the name of its map */
    this.reached = new Map();
    this.waiting = element("p", { class: "hint", role: "status" });
    host.append(this.waiting);
    this.explorer = new Explorer(host, page, "attention rollout");
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const { group, layer, map } = chosen(stacks(this.record), state);
    if (map.name !== this.asked) {
      this.asked = map.name;
      this.explored = null;
      this.waiting.textContent = this.reached.has(map.name) ? "" : "following attention through the layers …";
      const matrix = await this.upTo(group, layer);
      this.waiting.textContent = "";
      if (map.name !== this.asked) return;
      const layers = group.layers();
      this.explored = {
        matrix,
        rows: map.rows,
        columns: map.columns,
        caption: `rollout of ${group.label} through layers ${layers[0]} to ${layers[layer]}`,
        standing: (row) => map.standing(row),
        note: group.maps.every(({ raw }, at) => raw.layer === null || raw.layer === at)
          ? ""
          : "Not every layer is in this record: the rollout is of those that are.",
      };
    }
    if (this.explored) this.explorer.show(this.explored, state);
  }

  /**
   * @param {import("./record.js").Group} group
   * @param {number} layer
   * @returns {Promise<Matrix>}
   */
  async upTo(group, layer) {
    const map = group.maps[layer];
    const known = this.reached.get(map.name);
    if (known) return known;
    const before = layer > 0 ? await this.upTo(group, layer - 1) : null;
    const attention = await map.matrix("mean");
    await new Promise((resolve) => setTimeout(resolve)); // long texts take a while: let the page answer between layers
    const matrix = rolled(attention, before);
    this.reached.set(map.name, matrix);
    return matrix;
  }

  destroy() {
    this.explorer.destroy();
  }
}
