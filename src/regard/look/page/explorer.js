/**
 * A heat map with its numbers beside it: the cell pointed at, where its row looks most, what the colours mean.
 *
 * @typedef {object} Explored
 * @property {import("./matrix.js").Matrix} matrix
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {string} caption
 * @property {string} kind of map
 * @property {string} [note]
 * @property {(row: number) => string} who a row, in words
 * @property {boolean} part whether it is a block of a map
 * @property {import("./record.js").Range} rowRange which rows of the map these are
 * @property {import("./record.js").Range} columnRange
 */

import { legend } from "./cells.js";
import { choice, element } from "./elements.js";
import { HeatMap } from "./heat_map.js";
import { largest, ranking, reading } from "./ranking.js";
import { span } from "./scale_end.js";
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
    this.page = page;
    this.label = label;
    /** @type {Explored | null} */
    this.shown = null;
    /** @type {import("./scale_end.js").Span | null} */
    this.span = null;
    this.scale = "";
    /** @type {import("./palette.js").Scale | null} */
    this.explained = null;
    this.details = element("div", { class: "details" });
    this.legend = element("div");
    this.ends = element("p", { class: "note", "data-note": "scale" });
    this.note = element("p", { class: "note", "data-note": "map" });
    this.byRow = choice("each row on its own scale", false, () =>
      store.set({ scale: store.state.scale === "row" ? "map" : "row" }),
    );
    this.table = element("div", { class: "hidden" });
    const picture = element("div", { class: "picture" });
    const panel = element("aside", { class: "panel" }, this.details, this.legend, this.ends, this.byRow, this.note);
    host.append(element("div", { class: "split" }, picture, panel), this.table);
    this.heatMap = new HeatMap(picture, {
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
    const { matrix, rows, columns, caption } = explored;
    const before = this.shown;
    const same = explored === before;
    this.shown = explored;
    if (!same) {
      this.span = span(matrix, explored.kind);
      this.heatMap.describe(`${this.label}, ${caption}`);
    }
    if (!same || state.scale !== this.scale) {
      this.scale = state.scale;
      this.page.scales.join(this, this.label, this.span ?? span(matrix, explored.kind), () => this.paint());
    }
    this.heatMap.select(Math.min(state.query, matrix.rows - 1), Math.min(state.key, matrix.columns - 1));
    this.byRow.setAttribute("aria-pressed", String(state.scale === "row"));
    this.note.textContent = explored.note ?? "";
    const { row, column } = this.heatMap.selected;
    this.table.replaceChildren(spoken(matrix, { rows, columns, caption, row }));
    this.describe();
    if (before && !same) this.page.announce(this.sentence(row, column) || caption);
  }

  paint() {
    if (!this.shown) return;
    const { matrix, rows, columns } = this.shown;
    const byRow = this.scale === "row";
    this.heatMap.show({ matrix, rows, columns, byRow, scale: this.page.scales.scale(this.label) });
    this.ends.textContent = byRow ? "" : this.explainEnd();
    this.describe();
  }

  /** The end of the colour scale, and the reason if it is below the largest weight. */
  explainEnd() {
    const { columns } = /** @type {Explored} */ (this.shown);
    const { end, largest, count } = this.page.scales.joint(this.label);
    const own = this.span;
    const shared = count > 1 ? "One scale for all pictures. " : "";
    if (!(end < largest) || !own) return shared;
    const reasons = [
      own.rows.length > 0 && "a row that sees one item alone",
      own.columns.length > 0 && `the column ${own.columns.map((at) => `${visible(columns[at])} (${at})`).join(", ")}`,
    ];
    const why = reasons.filter(Boolean).join(" and ");
    return `${shared}The colours end at ${written(end)}, so that other weights can be seen beside ${why || "the strongest"}; weights up to ${written(largest)} have the last colour.`;
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  sentence(row, column) {
    if (!this.shown || row < 0 || column < 0) return "";
    const { matrix, columns, caption, who } = this.shown;
    return `${who(row)} looks at ${visible(columns[column])}: ${written(matrix.at(row, column))}, ${caption}`;
  }

  /** Describes the cell pointed at, or otherwise the chosen one. */
  describe() {
    if (!this.shown) return;
    const { matrix, rows, columns, who, part, rowRange, columnRange } = this.shown;
    const { row, column } = this.heatMap.pointed ?? this.heatMap.selected;
    const parts = [];
    if (row >= 0 && column >= 0) parts.push(reading(rows[row], columns[column], matrix.at(row, column)));
    if (row >= 0) {
      const values = matrix.row(row);
      const total = values.reduce((sum, value) => sum + value, 0);
      const about = { title: `${who(row)} looks at`, chosen: column, total, part, first: columnRange[0] };
      parts.push(ranking(largest(values, columns), about));
    } else if (column >= 0) {
      const title = `${visible(columns[column], 30)} is looked at by`;
      parts.push(ranking(largest(matrix.column(column), rows), { title, first: rowRange[0] }));
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
