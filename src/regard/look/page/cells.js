/** The cells of a heat map: painted once, a pixel each, into an image that is then stretched to any size. */

import { element } from "./elements.js";
import { css, isLight, NOT_A_NUMBER, Scale } from "./palette.js";

const NUMBERS_FROM = { width: 36, height: 20 }; // cells of this size hold their numbers
const GRID_FROM = 9;

export class Cells {
  constructor() {
    this.image = document.createElement("canvas");
    /** @type {import("./matrix.js").Matrix | null} */
    this.matrix = null;
    /** @type {Scale[]} one for each row, or one for all */
    this.scales = [];
  }

  /**
   * @param {import("./matrix.js").Matrix} matrix
   * @param {Scale} [scale] without one, from 0 to the largest weight
   * @param {boolean} [byRow] a scale for each row: to its own largest weight
   * @param {import("./palette.js").Colour} [blank] the colour of NaN
   */
  paint(matrix, scale, byRow = false, blank = NOT_A_NUMBER) {
    this.matrix = matrix;
    this.scales =
      byRow && matrix.rows
        ? Array.from({ length: matrix.rows }, (_, row) => Scale.of(matrix.row(row)))
        : [scale ?? Scale.of(matrix.values)];
    this.image.width = Math.max(matrix.columns, 1);
    this.image.height = Math.max(matrix.rows, 1);
    const image = new ImageData(this.image.width, this.image.height);
    const pixels = new Uint32Array(image.data.buffer);
    const nothing = packed(blank);
    const ramps = new Map(this.scales.map(({ ramp }) => [ramp, Uint32Array.from(ramp, packed)]));
    for (let row = 0, at = 0; row < matrix.rows; row++) {
      const own = this.scaleAt(row);
      const colours = /** @type {Uint32Array} */ (ramps.get(own.ramp));
      for (const end = at + matrix.columns; at < end; at++) pixels[at] = colours[own.step(matrix.values[at])] ?? nothing;
    }
    this.image.getContext("2d")?.putImageData(image, 0, 0);
  }

  /** @param {number} row */
  scaleAt(row) {
    return this.scales[row] ?? this.scales[0];
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {import("./viewport.js").Viewport} viewport
   * @param {number} left
   * @param {number} top
   * @param {string} paper
   */
  draw(context, viewport, left, top, paper) {
    const { cellWidth, cellHeight } = viewport;
    const smaller = Math.min(cellWidth, cellHeight);
    context.save();
    context.beginPath();
    context.rect(left, top, viewport.coveredWidth, viewport.coveredHeight);
    context.clip();
    context.translate(left - viewport.x, top - viewport.y);
    context.imageSmoothingEnabled = smaller * (devicePixelRatio || 1) < 1;
    context.imageSmoothingQuality = "high";
    context.drawImage(this.image, 0, 0, viewport.columns * cellWidth, viewport.rows * cellHeight);
    if (smaller >= GRID_FROM) this.grid(context, viewport, paper);
    if (cellWidth >= NUMBERS_FROM.width && cellHeight >= NUMBERS_FROM.height) this.numbers(context, viewport);
    context.restore();
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {import("./viewport.js").Viewport} viewport
   * @param {string} paper
   */
  grid(context, viewport, paper) {
    const { firstRow, lastRow, firstColumn, lastColumn } = viewport.seen();
    context.fillStyle = paper;
    for (let row = firstRow; row <= lastRow; row++) {
      context.fillRect(viewport.x, Math.round((row + 1) * viewport.cellHeight) - 1, viewport.width, 1);
    }
    for (let column = firstColumn; column <= lastColumn; column++) {
      context.fillRect(Math.round((column + 1) * viewport.cellWidth) - 1, viewport.y, 1, viewport.height);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {import("./viewport.js").Viewport} viewport
   */
  numbers(context, viewport) {
    const { firstRow, lastRow, firstColumn, lastColumn } = viewport.seen();
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let row = firstRow; row <= lastRow; row++) {
      for (let column = firstColumn; column <= lastColumn; column++) {
        const value = this.matrix?.at(row, column) ?? 0;
        if (!(Math.abs(value) >= 0.005)) continue;
        context.fillStyle = isLight(this.scaleAt(row).colour(value)) ? "rgb(20 24 32)" : "rgb(250 250 245)";
        context.fillText(
          value.toFixed(2).replace("-", "−"),
          (column + 0.5) * viewport.cellWidth,
          (row + 0.5) * viewport.cellHeight,
        );
      }
    }
  }
}

/**
 * A colour as one number, its bytes in the order of a picture's.
 *
 * @param {import("./palette.js").Colour} colour
 */
function packed([red, green, blue]) {
  return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];
}

/**
 * The colours of a scale with their values.
 *
 * @param {Scale} scale
 * @param {(value: number) => string} write
 */
export function legend(scale, write) {
  const bar = element("canvas", { class: "legend-bar", width: scale.ramp.length, height: 1, "aria-hidden": "true" });
  const context = bar.getContext("2d");
  scale.ramp.forEach((colour, step) => {
    if (!context) return;
    context.fillStyle = css(colour);
    context.fillRect(step, 0, 1, 1);
  });
  return element(
    "div",
    { class: "legend" },
    element("span", {}, write(scale.low)),
    bar,
    element("span", {}, `${scale.over === null ? "" : "≥ "}${write(scale.high)}`),
  );
}
