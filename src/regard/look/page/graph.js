/** Attention along the edges of a graph: the wider the edge, the larger the weight. */

import { caption, chosen } from "./chosen.js";
import { element } from "./elements.js";
import { listen } from "./gestures.js";
import { inks } from "./palette.js";
import { largest, ranking } from "./ranking.js";
import { Surface } from "./surface.js";
import { visible } from "./tokens.js";

const ROUNDS = 150;
const RADIUS = 9;
const MOST_EDGES = 4000;

/** @typedef {{from: number, to: number}} Edge */

/** @type {import("./views.js").View} */
export const graph = {
  name: "graph",
  label: "Graph",
  about: "The wider an edge, the more its ends look at each other. Choose a node to see only where it looks.",
  head: "mean",
  groups: connected,
  available: (record) => connected(record).length > 0,
  create: (host, record, page) => new Graph(host, record, page),
};

/** @param {import("./record.js").Record} record */
function connected(record) {
  return record.groups.filter(({ query, key }) => query === key && record.sides[key]?.kind === "nodes");
}

class Graph {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.page = page;
    this.inks = inks();
    this.asked = "";
    /** @type {import("./chosen.js").Chosen | null} */
    this.what = null;
    /** @type {import("./matrix.js").Matrix | null} */
    this.matrix = null;
    /** @type {Edge[]} */
    this.edges = [];
    /** @type {[number, number][]} in the square from 0 to 1 */
    this.places = [];
    this.node = -1;
    this.pointed = -1;
    this.frame = element("div", {
      class: "surface graph",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "graph",
      "aria-label": "nodes and what they look at; arrow keys move from node to node",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
    });
    this.panel = element("aside", { class: "panel" });
    host.append(element("div", { class: "split" }, this.frame, this.panel));
    this.surface = new Surface(this.frame, {
      draw: (context, width, height) => this.draw(context, width, height, this.isolated),
      drawOver: (context, width, height) => this.drawOver(context, width, height),
    });
    listen(this.frame, {
      point: (x, y) => this.point(this.nodeAt(x, y)),
      leave: () => this.point(-1),
      pan: () => false,
      zoom: () => {},
      choose: (x, y) => {
        const node = this.nodeAt(x, y);
        page.store.set({ query: node === this.node ? -1 : node });
      },
    });
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const what = chosen(connected(this.record), state);
    const asked = `${what.map.name} ${what.head}`;
    if (asked !== this.asked) {
      this.asked = asked;
      const matrix = await what.map.matrix(what.head);
      if (asked !== this.asked) return;
      this.matrix = matrix;
      this.what = what;
      this.edges = edgesOf(this.record.sides[what.group.key].edges, matrix);
      if (this.places.length !== matrix.rows) this.places = arranged(matrix.rows, this.edges);
    }
    this.node = Math.min(state.query, what.map.queries - 1);
    this.describe();
    this.surface.redraw();
  }

  get isolated() {
    return this.pointed >= 0 ? this.pointed : this.node;
  }

  /** @param {number} node */
  point(node) {
    if (node === this.pointed) return;
    this.pointed = node;
    this.describe();
    this.surface.redraw();
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    /** @type {{[key: string]: number}} */
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key === "Escape") this.page.store.set({ query: -1 });
    if (!(event.key in moves) || !this.matrix || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.page.store.set({ query: (this.node + moves[event.key] + this.matrix.rows) % this.matrix.rows });
    this.page.announce(this.panel.textContent ?? "");
  }

  describe() {
    if (!this.what || !this.matrix) return;
    const { map } = this.what;
    this.frame.dataset.isolated = String(this.isolated);
    this.panel.replaceChildren(
      this.isolated < 0
        ? element("p", { class: "hint" }, "Point at a node to see where it looks, click to keep it.")
        : ranking(largest(this.matrix.row(this.isolated), map.columns), {
            title: `${visible(map.rows[this.isolated], 30)} looks at`,
          }),
      element("p", { class: "note" }, caption(this.what)),
    );
  }

  /**
   * @param {number} node
   * @returns {[number, number]}
   */
  at(node) {
    const { width, height } = this.surface;
    const [x, y] = this.places[node];
    return [60 + x * (width - 120), 30 + y * (height - 60)];
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  nodeAt(x, y) {
    return this.places.findIndex((_, node) => Math.hypot(this.at(node)[0] - x, this.at(node)[1] - y) <= RADIUS + 4);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} _width
   * @param {number} _height
   * @param {number} isolated
   */
  draw(context, _width, _height, isolated) {
    const { matrix } = this;
    if (!matrix) return;
    const most = matrix.extent().largest || 1;
    context.strokeStyle = this.inks.accent;
    for (const { from, to } of this.edges) {
      const weight =
        isolated < 0
          ? Math.max(matrix.at(from, to), matrix.at(to, from))
          : isolated === from
            ? matrix.at(from, to)
            : isolated === to
              ? matrix.at(to, from)
              : 0;
      context.globalAlpha = weight > 0 ? 0.25 + (0.7 * weight) / most : 0.12;
      context.lineWidth = 0.5 + (7 * weight) / most;
      context.beginPath();
      context.moveTo(...this.at(from));
      context.lineTo(...this.at(to));
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} _width
   * @param {number} _height
   */
  drawOver(context, _width, _height) {
    if (!this.what) return;
    const { rows } = this.what.map;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.lineWidth = 2;
    this.places.forEach((_, node) => {
      const [x, y] = this.at(node);
      context.beginPath();
      context.arc(x, y, RADIUS, 0, 2 * Math.PI);
      context.fillStyle = node === this.isolated ? this.inks.accent : this.inks.paper;
      context.strokeStyle = this.inks.accent;
      context.fill();
      context.stroke();
      context.fillStyle = this.inks.ink;
      if (rows.length > 150 && node !== this.isolated) return;
      const name = visible(rows[node], 16);
      context.strokeStyle = this.inks.paper;
      context.lineWidth = 3;
      context.strokeText(name, x + RADIUS + 5, y);
      context.lineWidth = 2;
      context.fillText(name, x + RADIUS + 5, y);
    });
  }

  destroy() {
    this.surface.destroy();
  }
}

/**
 * The given edges, or otherwise the pairs with the largest weights.
 *
 * @param {[number, number][] | undefined} given
 * @param {import("./matrix.js").Matrix} matrix
 * @returns {Edge[]}
 */
function edgesOf(given, matrix) {
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
function arranged(count, edges) {
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
