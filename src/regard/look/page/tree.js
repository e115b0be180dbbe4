/**
 * The layout of the hypotheses of a beam: a column for each step, and never more rows than the busiest step has nodes.
 *
 * Children stand in the order of their parents, so that no link crosses another, as near to their parent's row as
 * there is room; the answer is the first row. Columns that do not fit side by side continue below, like lines of
 * text: each such line is a band.
 *
 * @typedef {import("./record.js").BeamNode} BeamNode
 * @typedef {BeamNode & {index: number, from: Node | null, children: Node[], row: number, x: number, y: number,
 *   width: number}} Node
 * @typedef {{nodes: Node[], columns: Node[][], rows: number}} Tree
 * @typedef {{first: number, count: number, y: number}} Band steps first … first + count
 */

export const ROW = 25;
export const GAP = 22; // between columns, for the links
export const HEAD = 20; // above a band, for the numbers of the steps
const BETWEEN = 18; // between bands

const RANK = ["answer", "finished", "kept", "dropped"];

/**
 * @param {BeamNode[]} raw
 * @param {boolean} dropped whether to keep those that were dropped
 * @returns {Tree}
 */
export function grown(raw, dropped) {
  /** @type {Node[]} */
  const all = raw.map((node, index) => ({
    ...node,
    index,
    from: null,
    children: [],
    row: 0,
    x: 0,
    y: 0,
    width: 0,
  }));
  for (const node of all) {
    // the ancestors of the answer are part of the answer
    if (node.state === "answer") for (let at = all[node.parent]; at; at = all[at.parent]) at.state = "answer";
  }
  const nodes = dropped ? all : all.filter(({ state }) => state !== "dropped");
  for (const node of nodes) {
    node.from = all[node.parent] ?? null;
    node.from?.children.push(node);
  }
  const rank = (/** @type {Node} */ { state }) => RANK.indexOf(state);
  const best = (/** @type {Node} */ a, /** @type {Node} */ b) =>
    Number(b.state === "answer") - Number(a.state === "answer") ||
    Number(a.state === "dropped") - Number(b.state === "dropped") ||
    (b.sum ?? -1e9) - (a.sum ?? -1e9) ||
    rank(a) - rank(b);
  /** @type {Node[][]} */
  const columns = [];
  for (
    let column = nodes.filter(({ from }) => !from).sort(best);
    column.length;
    column = column.flatMap(({ children }) => children)
  ) {
    for (const { children } of column) children.sort(best);
    columns.push(column);
  }
  const rows = Math.max(...columns.map((column) => column.length), 0);
  for (const column of columns) settle(column, rows);
  return { nodes, columns, rows };
}

/**
 * Gives the nodes of a column their rows: in order, each level with its parent if that is free, none beyond the last.
 *
 * @param {Node[]} column
 * @param {number} rows
 */
function settle(column, rows) {
  let free = 0;
  for (const node of column) {
    node.row = Math.max(free, node.from?.row ?? 0);
    free = node.row + 1;
  }
  let last = rows - 1;
  for (const node of column.toReversed()) {
    node.row = Math.min(node.row, last);
    last = node.row - 1;
  }
}

/**
 * Gives every node its place in a picture of some width.
 *
 * @param {Tree} tree
 * @param {number} room
 * @param {(node: Node) => number} wide how wide a node would be
 * @returns {{bands: Band[], height: number}}
 */
export function placed({ columns }, room, wide) {
  const widths = columns.map((column) => Math.max(...column.map(wide)));
  /** @type {Band[]} */
  const bands = [];
  let y = 0;
  for (let first = 0; first < widths.length; first += bands[bands.length - 1].count) {
    let count = 0;
    let used = GAP;
    while (first + count < widths.length && (!count || used + widths[first + count] + GAP <= room)) {
      used += widths[first + count] + GAP;
      count += 1;
    }
    const more = first + count < widths.length ? Math.max((room - used) / count, 0) : 0;
    let x = GAP;
    for (let step = first; step < first + count; step++) {
      for (const node of columns[step]) {
        Object.assign(node, { x, y: y + HEAD + (node.row + 0.5) * ROW, width: widths[step] });
      }
      x += widths[step] + GAP + more;
    }
    bands.push({ first, count, y });
    const lowest = Math.max(...columns.slice(first, first + count).flatMap((column) => column.map(({ row }) => row)));
    y += HEAD + (lowest + 1) * ROW + BETWEEN;
  }
  return { bands, height: y };
}
