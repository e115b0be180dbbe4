/** Where the colours of a map end. The same as `scale_end` in show.py. */

const SWALLOWING = 0.2; // a column that has at least this share of a map's weight may not set the scale of its colours

/**
 * The largest weight, but in self-attention without two things that tell little and would make the rest pale: a first
 * or last row that sees one item alone (of a causal map, 1 by necessity), and columns that most rows look at, such as
 * [CLS]. No less than an eighth of the largest weight.
 *
 * @typedef {{smallest: number, end: number, largest: number, rows: number[], columns: number[]}} Span what the colours
 *   of a map stand for, and the rows and columns that were left out for it
 *
 * @param {import("./matrix.js").Matrix} matrix
 * @param {string} kind of the map
 * @returns {Span}
 */
export function span(matrix, kind) {
  const { smallest, largest } = matrix.extent();
  const { rows: count, columns: width } = matrix;
  const all = { smallest, end: largest, largest, rows: [], columns: [] };
  if (kind !== "self" || count < 2 || width < 4 || smallest < 0) return all;
  const rows = [0, count - 1].filter((row) => matrix.row(row).filter((weight) => weight !== 0).length <= 1);
  const totals = new Float64Array(width);
  const tallest = new Float64Array(width);
  for (let row = 0; row < count; row++) {
    if (rows.includes(row)) continue;
    const own = matrix.row(row);
    for (let at = 0; at < width; at++) {
      totals[at] += own[at];
      if (own[at] > tallest[at]) tallest[at] = own[at];
    }
  }
  const most = Math.max(SWALLOWING, 3 / width) * (count - rows.length);
  const columns = Array.from(totals.keys()).filter((at) => totals[at] >= most);
  const end = tallest.reduce((highest, value, at) => (columns.includes(at) ? highest : Math.max(highest, value)), 0);
  return { ...all, end: Math.max(end, largest / 8), rows, columns };
}
