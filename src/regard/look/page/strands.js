/** The lines between two columns of tokens: those worth drawing, sorted by strength, and how to draw them. */

const LEVELS = 8;
const FEW = 40_000; // up to this many weights, each visible one is a line; with more, the strongest of each row
const PER_ROW = 6;
const FAINTEST = 0.02;

/**
 * @typedef {{from: number, to: number}} Strand
 * @typedef {{top: number, bottom: number, width: number, left: number, right: number, row: number,
 *   y: (place: number) => number}} Space
 */

/**
 * @param {import("./matrix.js").Matrix} matrix
 * @returns {Strand[][]} the strands of each level of strength, the faintest level first
 */
export function strands(matrix) {
  /** @type {Strand[][]} */
  const levels = Array.from({ length: LEVELS }, () => []);
  const { largest } = matrix.extent();
  if (!(largest > 0)) return levels;
  const every = matrix.values.length <= FEW;
  for (let from = 0; from < matrix.rows; from++) {
    const row = matrix.row(from);
    const least = Math.max(every ? 0 : nthLargest(row, PER_ROW), FAINTEST * largest);
    for (let to = 0; to < row.length; to++) {
      if (row[to] >= least) levels[Math.min(Math.floor((row[to] / largest) * LEVELS), LEVELS - 1)].push({ from, to });
    }
  }
  return levels;
}

/**
 * @param {Float32Array} values
 * @param {number} n
 */
function nthLargest(values, n) {
  if (values.length <= n) return -Infinity;
  const largest = new Float32Array(n).fill(-Infinity); // the smallest of them first
  for (const value of values) {
    if (!(value > largest[0])) continue;
    let at = 0;
    for (; at + 1 < n && largest[at + 1] < value; at++) largest[at] = largest[at + 1];
    largest[at] = value;
  }
  return largest[0];
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Strand[][]} levels
 * @param {Space} space
 * @param {number} shift
 * @param {{colour: string, dashes: number[]}} pen
 */
export function drawStrands(context, levels, space, shift, { colour, dashes }) {
  context.strokeStyle = colour;
  context.setLineDash(dashes);
  levels.forEach((level, strength) => {
    context.globalAlpha = (strength + 0.6) / LEVELS;
    context.lineWidth = 0.75 + (1.75 * strength) / LEVELS;
    context.beginPath();
    for (const { from, to } of level) strand(context, space, from, to, shift);
    context.stroke();
  });
  context.globalAlpha = 1;
  context.setLineDash([]);
}

/**
 * Adds one line to the path, if either end can be seen.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Space} space
 * @param {number} from
 * @param {number} to
 * @param {number} shift
 */
export function strand(context, { top, bottom, left, right, y }, from, to, shift) {
  const start = y(from) + shift;
  const end = y(to) + shift;
  if ((start < top || start > bottom) && (end < top || end > bottom)) return;
  const middle = (left + right) / 2;
  context.moveTo(left, start);
  context.bezierCurveTo(middle, start, middle, end, right, end);
}

/**
 * A place on a line: a cubic Bézier curve whose ends are level.
 *
 * @param {Space} space
 * @param {number} from
 * @param {number} to
 * @param {number} shift
 * @param {number} along from 0, its beginning, to 1, its end
 */
export function strandPoint({ left, right, y }, from, to, shift, along) {
  const rest = 1 - along;
  const start = y(from) + shift;
  const end = y(to) + shift;
  const middle = (left + right) / 2;
  const [a, b, c, d] = [rest ** 3, 3 * rest * rest * along, 3 * rest * along * along, along ** 3];
  return { x: a * left + (b + c) * middle + d * right, y: (a + b) * start + (c + d) * end };
}

/**
 * The offset of a head's lines from the middle of a row, so that heads that agree can be told apart.
 *
 * @param {number} at
 * @param {number} heads
 * @param {number} row
 */
export function shiftOf(at, heads, row) {
  return (at - (heads - 1) / 2) * Math.min(2.5, (0.55 * row) / heads);
}
