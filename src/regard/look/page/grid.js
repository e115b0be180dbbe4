/** The patches of a picture: which item is where, what separates them, and how weights light them. */

import { css, Scale } from "./palette.js";

const COVER = 0.88; // of a patch that is not looked at

/** @typedef {{x: number, y: number, width: number, height: number}} Box */

/** Rows and columns of patches, after the items that stand before them, such as a class token. */
export class Grid {
  /**
   * @param {import("./record.js").Side} side
   * @param {number} count the items of the side
   */
  constructor({ rows = 1, columns = 1 }, count) {
    this.rows = rows;
    this.columns = columns;
    this.before = Math.max(count - rows * columns, 0);
  }

  get count() {
    return this.rows * this.columns;
  }

  /** The patch in the middle, for want of a better one. */
  get middle() {
    return this.before + Math.floor(this.rows / 2) * this.columns + Math.floor(this.columns / 2);
  }

  /**
   * @param {number} item
   * @param {number} wide
   * @param {number} high
   * @returns {Box}
   */
  box(item, wide, high) {
    const patch = item - this.before;
    const [width, height] = [wide / this.columns, high / this.rows];
    return { x: (patch % this.columns) * width, y: Math.floor(patch / this.columns) * height, width, height };
  }

  /**
   * @param {number} item
   * @param {number} wide
   * @param {number} high
   * @returns {[number, number]}
   */
  centre(item, wide, high) {
    const { x, y, width, height } = this.box(item, wide, high);
    return [x + width / 2, y + height / 2];
  }

  /**
   * @param {number} x
   * @param {number} y
   * @param {number} wide
   * @param {number} high
   * @returns {number} the item there, or -1
   */
  at(x, y, wide, high) {
    const [row, column] = [Math.floor((y / high) * this.rows), Math.floor((x / wide) * this.columns)];
    const inside = row >= 0 && row < this.rows && column >= 0 && column < this.columns;
    return inside ? this.before + row * this.columns + column : -1;
  }

  /**
   * The middle of what a row of weights looks at.
   *
   * @param {Float32Array} weights
   * @param {number} wide
   * @param {number} high
   * @returns {[number, number] | null} null if it looks at no patch
   */
  focus(weights, wide, high) {
    let [x, y, sum] = [0, 0, 0];
    for (let item = this.before; item < this.before + this.count; item++) {
      const [right, down] = this.centre(item, wide, high);
      x += right * weights[item];
      y += down * weights[item];
      sum += weights[item];
    }
    return sum > 0 ? [x / sum, y / sum] : null;
  }
}

/**
 * The borders of windows: neighbours between which there is one have no key in common that both look at.
 *
 * @param {import("./matrix.js").Matrix} matrix from the patches of a grid to themselves
 * @param {Grid} grid
 * @returns {[number, number][]} pairs of neighbouring items, of which the second is at the right or below
 */
export function borders(matrix, grid) {
  const { rows, columns, before } = grid;
  if (matrix.values.every((weight) => weight > 0)) return [];
  /** @type {[number, number][]} */
  const found = [];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const own = before + row * columns + column;
      if (column + 1 < columns && apart(matrix, own, own + 1)) found.push([own, own + 1]);
      if (row + 1 < rows && apart(matrix, own, own + columns)) found.push([own, own + columns]);
    }
  }
  return found;
}

/**
 * @param {import("./matrix.js").Matrix} matrix
 * @param {number} one
 * @param {number} other
 */
function apart(matrix, one, other) {
  const [first, second] = [matrix.row(one), matrix.row(other)];
  for (let key = 0; key < first.length; key++) if (first[key] > 0 && second[key] > 0) return false;
  return true;
}

/**
 * Dims the picture, less where the weights are larger; the patch of the largest weight stays as it is. The cover is grey,
 * so that lit patches stand out of white and of black pictures. What moved an answer is coloured instead: the stronger,
 * the more, in one colour towards the answer and in another away from it.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Float32Array} weights of all items
 * @param {Grid} grid
 * @param {number} wide
 * @param {number} high
 * @param {string} dim
 * @param {boolean} [moved]
 */
export function light(context, weights, grid, wide, high, dim, moved = false) {
  const { rows, columns, before } = grid;
  const most = weights.subarray(before).reduce((all, weight) => Math.max(all, Math.abs(weight)), 1e-12);
  const scale = new Scale(-most, most, true);
  context.fillStyle = dim;
  for (let row = 0; row < rows; row++) {
    const [top, bottom] = [Math.round((row * high) / rows), Math.round(((row + 1) * high) / rows)];
    for (let column = 0; column < columns; column++) {
      const weight = weights[before + row * columns + column];
      const [left, right] = [Math.round((column * wide) / columns), Math.round(((column + 1) * wide) / columns)];
      if (moved) context.fillStyle = css(scale.colour(weight));
      context.globalAlpha = moved ? 0.7 : COVER * (1 - Math.max(weight, 0) / most);
      context.fillRect(left, top, right - left, bottom - top);
    }
  }
  context.globalAlpha = 1;
}
