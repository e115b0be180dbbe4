/** The names along the two sides of a grid of cells: as many as can be read, and no more. */

import { visible } from "./tokens.js";

/** @typedef {import("./viewport.js").Viewport} Viewport */

const FONT = "12px system-ui, sans-serif";
const LINE = 15; // the least distance at which one line of text clears the next
const SLANTED = Math.PI / 4;
const STANDING = Math.PI / 2; // for narrow pages: upright names need no width beside the cells
const NARROW = 480;
const LONGEST = 22;
const PADDING = 8;

export class Axes {
  /**
   * @param {string[]} rows
   * @param {string[]} columns
   */
  constructor(rows, columns) {
    this.rows = rows.map((name) => visible(name, LONGEST));
    this.columns = columns.map((name) => visible(name, LONGEST));
    const context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    context.font = FONT;
    const widest = (/** @type {string[]} */ texts) =>
      texts.reduce((most, text) => Math.max(most, context.measureText(text).width), 0);
    this.widestRow = widest(this.rows);
    this.widestColumn = widest(this.columns);
    this.left = 0;
    this.top = 0;
    this.right = 0;
    this.upright = false;
    this.slant = SLANTED;
  }

  /**
   * Leaves room for the names: at the left, on top, and to the right, where slanted names lean out. They stand
   * upright where the cells are wide enough for that.
   *
   * @param {Viewport} viewport
   * @param {number} width of the whole
   * @param {number} height
   */
  layOut(viewport, width, height) {
    this.left = Math.min(this.widestRow, width * 0.3) + 2 * PADDING;
    this.top = LINE + 2 * PADDING;
    this.right = PADDING;
    viewport.resize(width - this.left - this.right, height - this.top - PADDING);
    this.upright = viewport.fitted().width >= this.widestColumn + PADDING;
    if (this.upright) return;
    this.slant = width < NARROW ? STANDING : SLANTED;
    this.top = Math.min(this.widestColumn * Math.sin(this.slant), height * 0.35) + 2 * PADDING + 6;
    this.right = this.widestColumn * Math.cos(this.slant) + PADDING;
    viewport.resize(width - this.left - this.right, height - this.top - PADDING);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Viewport} viewport
   * @param {string} colour
   */
  draw(context, viewport, colour) {
    const { firstRow, lastRow, firstColumn, lastColumn } = viewport.seen();
    const rowStep = Math.ceil(LINE / viewport.cellHeight);
    const columnStep = Math.ceil((this.upright ? this.widestColumn + PADDING : LINE) / viewport.cellWidth);
    context.font = FONT;
    context.fillStyle = colour;
    for (let row = Math.ceil(firstRow / rowStep) * rowStep; row <= lastRow; row += rowStep) {
      this.row(context, viewport, row);
    }
    for (let column = Math.ceil(firstColumn / columnStep) * columnStep; column <= lastColumn; column += columnStep) {
      this.column(context, viewport, column);
    }
  }

  /**
   * The names of one cell, drawn over the picture.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {Viewport} viewport
   * @param {{row: number, column: number}} cell
   * @param {{paper: string, ink: string}} colours
   */
  emphasise(context, viewport, { row, column }, { paper, ink }) {
    const { left, top, upright } = this;
    context.font = `600 ${FONT}`;
    if (row >= 0 && row < this.rows.length) {
      const middle = top + (row + 0.5) * viewport.cellHeight - viewport.y;
      if (middle >= top && middle <= top + viewport.height) {
        context.fillStyle = paper;
        context.fillRect(0, middle - LINE / 2 - 1, left - 2, LINE + 2);
        context.fillStyle = ink;
        this.row(context, viewport, row);
      }
    }
    if (column >= 0 && column < this.columns.length) {
      const middle = left + (column + 0.5) * viewport.cellWidth - viewport.x;
      if (middle >= left && middle <= left + viewport.width) {
        context.save();
        context.beginPath();
        context.rect(0, 0, left + viewport.width + this.right, top - 1);
        context.clip();
        context.fillStyle = paper;
        context.translate(middle, top);
        if (!upright) context.rotate(-this.slant);
        const half = context.measureText(this.columns[column]).width / 2;
        if (upright) context.fillRect(-half - 2, -LINE - PADDING, 2 * half + 4, LINE + PADDING - 2);
        else context.fillRect(2, -LINE / 2 - 1, 2 * half + PADDING, LINE + 2);
        context.restore();
        context.fillStyle = ink;
        this.column(context, viewport, column);
      }
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Viewport} viewport
   * @param {number} row
   */
  row(context, viewport, row) {
    const { left, top } = this;
    const middle = top + (row + 0.5) * viewport.cellHeight - viewport.y;
    if (middle < top || middle > top + viewport.height) return;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(this.rows[row], left - PADDING, middle, left - PADDING);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Viewport} viewport
   * @param {number} column
   */
  column(context, viewport, column) {
    const { left, top, upright } = this;
    const middle = left + (column + 0.5) * viewport.cellWidth - viewport.x;
    if (middle < left || middle > left + viewport.width) return;
    context.save();
    context.translate(middle, top - (upright ? PADDING : 4));
    context.textBaseline = upright ? "alphabetic" : "middle";
    context.textAlign = upright ? "center" : "left";
    if (!upright) context.rotate(-this.slant);
    context.fillText(this.columns[column], upright ? 0 : 4, 0);
    context.restore();
  }
}
