/**
 * The edges of a graph, and places for its nodes.
 *
 * @typedef {{from: number, to: number}} Edge
 */

const ROUNDS = 150;
const MOST_EDGES = 4000;

/**
 * The given edges, or otherwise the pairs with the largest weights.
 *
 * @param {[number, number][] | undefined} given
 * @param {import("./matrix.js").Matrix} matrix
 * @returns {Edge[]}
 */
export function edgesOf(given, matrix) {
  const inside = (/** @type {number} */ node) => Number.isInteger(node) && node >= 0 && node < matrix.rows;
  if (given)
    return given
      .map(([from, to]) => ({ from, to }))
      .filter(({ from, to }) => inside(from) && inside(to) && from !== to);
  /** @type {(Edge & {weight: number})[]} */
  const all = [];
  for (let from = 0; from < matrix.rows; from++) {
    for (let to = 0; to < from; to++) {
      const weight = Math.max(matrix.at(from, to), matrix.at(to, from));
      if (weight > 0) all.push({ from, to, weight });
    }
  }
  return all.sort((a, b) => b.weight - a.weight).slice(0, MOST_EDGES);
}

/**
 * Places for nodes: from a circle, edges pull and nodes push, with decreasing force (Fruchterman & Reingold 1991).
 *
 * @param {number} count
 * @param {Edge[]} edges
 * @returns {[number, number][]}
 */
export function arranged(count, edges) {
  const ideal = Math.sqrt(1 / Math.max(count, 1));
  const x = Float64Array.from({ length: count }, (_, node) => 0.5 + 0.4 * Math.cos((2 * Math.PI * node) / count));
  const y = Float64Array.from({ length: count }, (_, node) => 0.5 + 0.4 * Math.sin((2 * Math.PI * node) / count));
  const rounds = count > 400 ? 0 : ROUNDS; // with more nodes, the circle is kept
  for (let round = 0; round < rounds; round++) {
    const right = new Float64Array(count);
    const down = new Float64Array(count);
    const push = (
      /** @type {number} */ a,
      /** @type {number} */ b,
      /** @type {(distance: number) => number} */ force,
    ) => {
      const distance = Math.max(Math.hypot(x[a] - x[b], y[a] - y[b]), 1e-4);
      const share = force(distance) / distance;
      right[a] += (x[a] - x[b]) * share;
      right[b] -= (x[a] - x[b]) * share;
      down[a] += (y[a] - y[b]) * share;
      down[b] -= (y[a] - y[b]) * share;
    };
    for (let a = 0; a < count; a++) for (let b = 0; b < a; b++) push(a, b, (distance) => (ideal * ideal) / distance);
    for (const { from, to } of edges) push(from, to, (distance) => -(distance * distance) / ideal);
    const step = 0.08 * (1 - round / rounds);
    for (let node = 0; node < count; node++) {
      const length = Math.max(Math.hypot(right[node], down[node]), 1e-9);
      x[node] += (right[node] / length) * Math.min(length, step);
      y[node] += (down[node] / length) * Math.min(length, step);
    }
  }
  const span = (/** @type {Float64Array} */ values) => ({
    from: Math.min(...values),
    size: Math.max(Math.max(...values) - Math.min(...values), 1e-9),
  });
  const [across, along] = [span(x), span(y)];
  return Array.from({ length: count }, (_, node) => [
    (x[node] - across.from) / across.size,
    (y[node] - along.from) / along.size,
  ]);
}
