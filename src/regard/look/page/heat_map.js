/**
 * A heat map: a matrix as cells, named along both sides. Zooms, pans, and says which cell is pointed at or chosen.
 *
 * The cells are painted once, a pixel each, into an image that is then stretched; pointing draws only over it.
 *
 * @typedef {{row: number, column: number}} Cell either may be -1: a whole row or a whole column
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./palette.js").Scale} Scale
 * @typedef {{matrix: Matrix, rows: string[], columns: string[], scale?: Scale, byRow?: boolean,
 *   blank?: import("./palette.js").Colour}} Content `blank` is the colour of NaN
 */

import { Axes } from "./axes.js";
import { Cells } from "./cells.js";
import { element } from "./elements.js";
import { listen } from "./gestures.js";
import { inks } from "./palette.js";
import { Surface } from "./surface.js";
import { Viewport } from "./viewport.js";

export class HeatMap {
  /**
   * @param {HTMLElement} host
   * @param {{point?: (cell: Cell | null) => void, choose?: (cell: Cell) => void}} events
   */
  constructor(host, { point = () => {}, choose = () => {} }) {
    this.events = { point, choose };
    /** @type {Content | null} */
    this.content = null;
    /** @type {Cell | null} */
    this.pointed = null;
    /** @type {Cell} */
    this.selected = { row: -1, column: -1 };
    this.viewport = new Viewport();
    this.axes = new Axes([], []);
    this.cells = new Cells();
    this.inks = inks();
    this.frame = element("div", {
      class: "surface heat-map",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "heat map",
      "aria-label": "heat map",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
    });
    host.append(this.frame, this.buttons());
    this.surface = new Surface(this.frame, {
      draw: (context, width, height) => this.draw(context, width, height),
      drawOver: (context) => this.drawOver(context),
    });
    listen(this.frame, {
      point: (x, y) => this.point(this.cellAt(x, y)),
      leave: () => this.point(null),
      choose: (x, y) => {
        const cell = this.cellAt(x, y);
        if (cell) this.events.choose(cell);
      },
      pan: (right, down) => {
        const moved = this.viewport.pan(right, down);
        if (moved) this.surface.redraw();
        return moved;
      },
      zoom: (factor, x, y) => this.zoom(factor, x, y),
    });
  }

  buttons() {
    /** @type {[string, string, () => void][]} */
    const actions = [
      ["+", "zoom in", () => this.zoom(1.5)],
      ["−", "zoom out", () => this.zoom(1 / 1.5)],
      ["⤢", "show everything", () => this.zoom(0)],
    ];
    return element(
      "div",
      { class: "zoom" },
      ...actions.map(([sign, title, onclick]) =>
        element("button", { type: "button", title, "aria-label": title, onclick }, sign),
      ),
    );
  }

  /** @param {Content} content */
  show(content) {
    if (content.rows !== this.content?.rows || content.columns !== this.content.columns)
      this.axes = new Axes(content.rows, content.columns);
    this.content = content;
    this.viewport.hold(content.matrix.rows, content.matrix.columns);
    this.cells.paint(content.matrix, content.scale, content.byRow, content.blank);
    this.frame.dataset.rows = String(content.matrix.rows);
    this.frame.dataset.columns = String(content.matrix.columns);
    this.surface.redraw();
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  select(row, column) {
    if (row === this.selected.row && column === this.selected.column) return;
    this.selected = { row, column };
    if (this.viewport.reveal(row, column)) this.surface.redraw();
    else this.surface.redrawOver();
  }

  /**
   * The label for screen readers.
   *
   * @param {string} label
   */
  describe(label) {
    this.frame.setAttribute("aria-label", `${label}; arrow keys move from cell to cell`);
  }

  /** @param {Cell | null} cell */
  point(cell) {
    if (cell?.row === this.pointed?.row && cell?.column === this.pointed?.column) return;
    this.mark(cell);
    this.events.point(cell);
  }

  /**
   * Shows a cell as pointed at, without an event.
   *
   * @param {Cell | null} cell
   */
  mark(cell) {
    this.pointed = cell;
    this.surface.redrawOver();
  }

  /**
   * @param {number} factor 0 shows everything
   * @param {number} [x]
   * @param {number} [y]
   */
  zoom(factor, x, y) {
    const {
      viewport,
      axes: { left, top },
    } = this;
    if (factor === 0) viewport.reset();
    else
      viewport.zoomAt(
        factor,
        (x ?? left + viewport.coveredWidth / 2) - left,
        (y ?? top + viewport.coveredHeight / 2) - top,
      );
    this.surface.redraw();
  }

  /**
   * The cell at a place; beside the cells, at a name, the whole row or column.
   *
   * @param {number} x
   * @param {number} y
   * @returns {Cell | null}
   */
  cellAt(x, y) {
    const { left, top } = this.axes;
    if (x < left && y < top) return null;
    const cell = this.viewport.cellAt(Math.max(x - left, 0), Math.max(y - top, 0));
    return cell && { row: y < top ? -1 : cell.row, column: x < left ? -1 : cell.column };
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (!this.content || event.ctrlKey || event.metaKey || event.altKey) return;
    const { rows, columns } = this.content.matrix;
    const { row, column } = this.selected;
    /** @type {{[key: string]: () => void}} */
    const actions = {
      ArrowUp: () => this.move(row - 1, column),
      ArrowDown: () => this.move(row + 1, column),
      ArrowLeft: () => this.move(row, column - 1),
      ArrowRight: () => this.move(row, column + 1),
      PageUp: () => this.move(row - 10, column),
      PageDown: () => this.move(row + 10, column),
      Home: () => this.move(row, 0),
      End: () => this.move(row, columns - 1),
      Escape: () => this.events.choose({ row: -1, column: -1 }),
      "+": () => this.zoom(1.5),
      "=": () => this.zoom(1.5),
      "-": () => this.zoom(1 / 1.5),
      0: () => this.zoom(0),
    };
    if (!(event.key in actions) || !rows || !columns) return;
    event.preventDefault();
    actions[event.key]();
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  move(row, column) {
    const { rows, columns } = /** @type {Content} */ (this.content).matrix;
    this.events.choose({
      row: Math.min(Math.max(row, 0), rows - 1),
      column: Math.min(Math.max(column, 0), columns - 1),
    });
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   */
  draw(context, width, height) {
    if (!this.content) return;
    const { viewport, axes } = this;
    axes.layOut(viewport, width, height);
    const { left, top } = axes;
    const { cellWidth, cellHeight, coveredWidth, coveredHeight } = viewport;
    this.frame.dataset.geometry = [left - viewport.x, top - viewport.y, cellWidth, cellHeight].join(" ");
    this.cells.draw(context, viewport, left, top, this.inks.paper);
    context.strokeStyle = this.inks.line;
    context.strokeRect(left - 0.5, top - 0.5, coveredWidth + 1, coveredHeight + 1);
    axes.draw(context, viewport, this.inks.soft);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   */
  drawOver(context) {
    if (!this.content) return;
    this.frame.dataset.pointed = this.pointed ? `${this.pointed.row} ${this.pointed.column}` : "";
    this.outline(context, this.selected, this.inks.accent, 2);
    if (this.pointed) this.outline(context, this.pointed, this.inks.ink, 1.5);
  }

  /**
   * The row, the column and the cell where they meet.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {Cell} cell
   * @param {string} colour
   * @param {number} thickness
   */
  outline(context, cell, colour, thickness) {
    const { viewport, axes } = this;
    const { left, top } = axes;
    const { row, column } = cell;
    const { cellWidth, cellHeight, coveredWidth, coveredHeight } = viewport;
    const x = left + column * cellWidth - viewport.x;
    const y = top + row * cellHeight - viewport.y;
    context.save();
    context.beginPath();
    context.rect(left - 2, top - 2, coveredWidth + 4, coveredHeight + 4);
    context.clip();
    context.strokeStyle = colour;
    context.globalAlpha = 0.55;
    if (row >= 0) context.strokeRect(left - 0.5, y - 0.5, coveredWidth + 1, cellHeight);
    if (column >= 0) context.strokeRect(x - 0.5, top - 0.5, cellWidth, coveredHeight + 1);
    context.globalAlpha = 1;
    context.lineWidth = thickness;
    const room = Math.max(5 - Math.min(cellWidth, cellHeight), 0); // a cell of a pixel is framed from further away
    if (row >= 0 && column >= 0)
      context.strokeRect(x - 0.5 - room, y - 0.5 - room, cellWidth + 2 * room, cellHeight + 2 * room);
    context.restore();
    axes.emphasise(context, viewport, cell, { paper: this.inks.paper, ink: colour });
  }

  destroy() {
    this.surface.destroy();
  }
}
