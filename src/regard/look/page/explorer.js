/**
 * A heat map with its numbers beside it: the cell pointed at, where its row looks most, what the colours mean.
 *
 * @typedef {object} Explored
 * @property {import("./matrix.js").Matrix} matrix
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {string} caption
 * @property {string} [note]
 * @property {(row: number) => string | null} [standing] what stood where a row looked from
 */

import { legend } from "./cells.js";
import { choice, element } from "./elements.js";
import { HeatMap } from "./heat_map.js";
import { largest, ranking, reading } from "./ranking.js";
import { spoken } from "./table.js";
import { visible, written } from "./tokens.js";

const HINT =
  "Point at a cell to read it, click to keep it. Arrow keys move from cell to cell. " +
  "Ctrl and the wheel, a pinch, or + and − zoom; drag or scroll to move.";

export class Explorer {
  /**
   * @param {HTMLElement} host
   * @param {import("./views.js").Page} page
   * @param {string} label
   */
  constructor(host, page, label) {
    const { store } = page;
    /** @type {Explored | null} */
    this.shown = null;
    this.scale = "";
    /** @type {import("./palette.js").Scale | null} */
    this.explained = null;
    this.details = element("div", { class: "details" });
    this.legend = element("div");
    this.note = element("p", { class: "note", "data-note": "map" });
    this.byRow = choice("each row on its own scale", false, () =>
      store.set({ scale: store.state.scale === "row" ? "map" : "row" }),
    );
    this.table = element("div", { class: "hidden" });
    const picture = element("div", { class: "picture" });
    const panel = element("aside", { class: "panel" }, this.details, this.legend, this.byRow, this.note);
    host.append(element("div", { class: "split" }, picture, panel), this.table);
    this.heatMap = new HeatMap(picture, {
      label: `${label}; arrow keys move from cell to cell`,
      point: () => this.describe(),
      choose: ({ row, column }) => {
        store.set({ query: row, key: column });
        page.announce(this.sentence(row, column));
      },
    });
  }

  /**
   * @param {Explored} explored the same object as before if nothing but the state changed
   * @param {import("./store.js").State} state
   */
  show(explored, state) {
    const { matrix, rows, columns } = explored;
    if (explored !== this.shown || state.scale !== this.scale) {
      this.heatMap.show({ matrix, rows, columns, byRow: state.scale === "row" });
    }
    this.shown = explored;
    this.scale = state.scale;
    this.heatMap.select(Math.min(state.query, matrix.rows - 1), Math.min(state.key, matrix.columns - 1));
    this.byRow.setAttribute("aria-pressed", String(state.scale === "row"));
    this.note.textContent = explored.note ?? "";
    this.table.replaceChildren(
      spoken(matrix, { rows, columns, caption: explored.caption, row: this.heatMap.selected.row }),
    );
    this.describe();
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  sentence(row, column) {
    if (!this.shown || row < 0 || column < 0) return "";
    const { matrix, rows, columns, caption } = this.shown;
    return `${visible(rows[row])} looks at ${visible(columns[column])}: ${written(matrix.at(row, column))}, ${caption}`;
  }

  /** Says what is pointed at, or else chosen. */
  describe() {
    if (!this.shown) return;
    const { matrix, rows, columns, standing } = this.shown;
    const { row, column } = this.heatMap.pointed ?? this.heatMap.selected;
    const parts = [];
    if (row >= 0 && column >= 0) parts.push(reading(rows[row], columns[column], matrix.at(row, column)));
    if (row >= 0) {
      const before = standing?.(row) ?? null;
      if (before !== null)
        parts.push(
          element("p", { class: "note" }, `looking from ${visible(before)}, about to say ${visible(rows[row])}`),
        );
      const values = matrix.row(row);
      const total = values.reduce((sum, value) => sum + value, 0);
      parts.push(
        ranking(largest(values, columns), { title: `${visible(rows[row], 30)} looks at`, chosen: column, total }),
      );
    } else if (column >= 0) {
      parts.push(
        ranking(largest(matrix.column(column), rows), { title: `${visible(columns[column], 30)} is looked at by` }),
      );
    } else {
      parts.push(element("p", { class: "hint" }, HINT));
    }
    this.details.replaceChildren(...parts);
    this.explain(this.heatMap.cells.scaleAt(Math.max(row, 0)));
  }

  /** @param {import("./palette.js").Scale} scale */
  explain(scale) {
    if (scale === this.explained) return;
    this.explained = scale;
    this.legend.replaceChildren(legend(scale, written));
  }

  destroy() {
    this.heatMap.destroy();
  }
}
