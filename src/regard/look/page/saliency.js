/** Saliency (gradient × input) beside attention, on the same axes: weights alone are not an explanation. */

import { caption, chosen } from "./chosen.js";
import { legend } from "./cells.js";
import { element } from "./elements.js";
import { HeatMap } from "./heat_map.js";
import { Scale } from "./palette.js";
import { reading } from "./ranking.js";
import { AttentionMap } from "./record.js";
import { spoken } from "./table.js";
import { visible, written } from "./tokens.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {{matrix: Matrix, caption: string, heatMap: HeatMap, foot: HTMLElement, table: HTMLElement}} Twin
 */

/** @type {import("./views.js").View} */
export const saliency = {
  name: "saliency",
  label: "Saliency",
  about: "Left: where the model looked. Right: what moved its answer (gradient × input), blue towards it, orange away.",
  head: "one",
  groups: (record) => record.groups.filter((group) => opinion(record, group)),
  available: (record) => Object.keys(record.raw.saliency ?? {}).length > 0,
  create: (host, record, page) => new Saliency(host, record, page),
};

/**
 * The saliency that has the axes of a group.
 *
 * @param {import("./record.js").Record} record
 * @param {import("./record.js").Group} group
 */
function opinion(record, group) {
  return Object.values(record.raw.saliency ?? {}).find(({ query, key }) => query === group.query && key === group.key);
}

class Saliency {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.page = page;
    this.asked = "";
    /** @type {Twin[]} */
    this.twins = [];
    this.host = element("div", { class: "twins" });
    host.append(this.host);
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const groups = saliency.groups(this.record);
    const what = groups.length ? chosen(groups, state) : null;
    const raw = (what && opinion(this.record, what.group)) ?? Object.values(this.record.raw.saliency ?? {})[0];
    const asked = `${what?.map.name} ${what?.head}`;
    if (asked !== this.asked) {
      this.asked = asked;
      const gradients = new AttentionMap(raw, this.record.sides);
      const second = await gradients.matrix("mean");
      const first = what && (await what.map.matrix(what.head));
      if (asked !== this.asked) return;
      this.destroy();
      this.axes = { rows: gradients.rows, columns: gradients.columns };
      const { smallest, largest } = second.extent();
      this.twins = [
        ...(first ? [this.twin("Attention", caption(/** @type {any} */ (what)), first)] : []),
        this.twin("Saliency", `what moved ${visible(raw.query)}`, second, new Scale(smallest, largest, true)),
      ];
    }
    for (const { matrix, caption, heatMap, table } of this.twins) {
      heatMap.select(Math.min(state.query, matrix.rows - 1), Math.min(state.key, matrix.columns - 1));
      if (this.axes) table.replaceChildren(spoken(matrix, { ...this.axes, caption, row: state.query }));
    }
    this.describe(null);
  }

  /**
   * @param {string} title
   * @param {string} caption
   * @param {import("./matrix.js").Matrix} matrix
   * @param {Scale} [scale]
   */
  twin(title, caption, matrix, scale) {
    const picture = element("div", { class: "picture" });
    const foot = element("div", { class: "foot" });
    const table = element("div", { class: "hidden" });
    this.host.append(
      element(
        "figure",
        { "data-twin": title.toLowerCase() },
        element("figcaption", {}, element("strong", {}, title), ` ${caption}`),
        picture,
        foot,
        table,
      ),
    );
    const heatMap = new HeatMap(picture, {
      label: `${title}; arrow keys move from cell to cell`,
      point: (cell) => this.describe(cell),
      choose: ({ row, column }) => {
        this.page.store.set({ query: row, key: column });
        this.page.announce(this.sentence(row, column));
      },
    });
    const axes = /** @type {{rows: string[], columns: string[]}} */ (this.axes);
    heatMap.show({ matrix, ...axes, scale });
    foot.before(legend(heatMap.cells.scaleAt(0), written));
    return { matrix, caption, heatMap, foot, table };
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  sentence(row, column) {
    if (row < 0 || column < 0 || !this.axes) return "";
    const numbers = this.twins.map(({ matrix, caption }) => `${written(matrix.at(row, column))} (${caption})`);
    return `${visible(this.axes.rows[row])} and ${visible(this.axes.columns[column])}: ${numbers.join(", ")}`;
  }

  /**
   * The same cell in both.
   *
   * @param {import("./heat_map.js").Cell | null} cell
   */
  describe(cell) {
    for (const { matrix, heatMap, foot } of this.twins) {
      heatMap.mark(cell);
      const { row, column } = cell ?? heatMap.selected;
      const { rows, columns } = /** @type {{rows: string[], columns: string[]}} */ (this.axes);
      foot.replaceChildren(
        ...(row >= 0 && column >= 0 ? [reading(rows[row], columns[column], matrix.at(row, column))] : []),
      );
    }
  }

  destroy() {
    for (const { heatMap } of this.twins) heatMap.destroy();
    this.host.replaceChildren();
    this.twins = [];
  }
}
