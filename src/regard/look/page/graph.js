/** Attention along the edges of a graph: the wider the edge, the larger the weight; nodes have the colours of classes. */

import { caption, chosen } from "./chosen.js";
import { element } from "./elements.js";
import { listen } from "./gestures.js";
import { arranged, edgesOf } from "./layout.js";
import { Classes, drawNode, Names } from "./nodes.js";
import { inks } from "./palette.js";
import { largest, ranking } from "./ranking.js";
import { Surface } from "./surface.js";
import { visible, written } from "./tokens.js";

const WORTH_A_NUMBER = 0.01;
const MOST_NUMBERS = 12;
const MOST_NAMES = 150;

/** @typedef {import("./layout.js").Edge} Edge */

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
    this.classes = new Classes(undefined);
    this.subject = -1; // the node that the answer is about
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
    this.details = element("div", { class: "details" });
    this.legend = element("ul", { class: "classes", "aria-label": "classes" });
    const panel = element("aside", { class: "panel" }, this.legend, this.details);
    host.append(element("div", { class: "split" }, this.frame, panel));
    this.surface = new Surface(this.frame, {
      draw: (context) => this.draw(context),
      drawOver: (context) => this.drawOver(context),
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
      const side = this.record.sides[what.group.key];
      this.matrix = matrix;
      this.what = what;
      this.edges = edgesOf(side.edges, matrix);
      this.subject = what.group.key === "source" ? (this.record.raw.answer?.places?.[0] ?? -1) : -1;
      if (this.places.length !== matrix.rows) this.places = arranged(matrix.rows, this.edges);
      this.explain(side.labels);
    }
    this.node = Math.min(state.query, what.map.queries - 1);
    this.describe();
    this.surface.redraw();
  }

  get isolated() {
    return this.pointed >= 0 ? this.pointed : this.node;
  }

  get radius() {
    return this.places.length > MOST_NAMES ? 5 : 9;
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
    this.page.announce(this.details.textContent ?? "");
  }

  /**
   * The legend: each class with its colour.
   *
   * @param {string[] | undefined} labels
   */
  explain(labels) {
    this.classes = new Classes(labels);
    this.legend.replaceChildren(
      ...this.classes.names.map((name, number) => {
        const canvas = element("canvas", { width: 32, height: 32, "aria-hidden": "true" });
        const context = canvas.getContext("2d");
        if (context) drawNode(context, [16, 16], 11, number, this.inks);
        const count = element("span", { class: "number" }, this.classes.count(name));
        return element("li", { "data-class": name }, canvas, element("bdi", {}, visible(name, 30)), count);
      }),
    );
  }

  describe() {
    if (!this.what || !this.matrix) return;
    const { map } = this.what;
    const node = this.isolated >= 0 ? this.isolated : this.subject;
    this.frame.dataset.isolated = String(this.isolated);
    this.frame.dataset.subject = String(this.subject);
    const title = `${visible(map.rows[node], 40)} looks at`;
    const hint = this.isolated < 0 ? "Point at a node to see where it looks, click to keep it." : "";
    this.details.replaceChildren(
      node < 0 ? "" : ranking(largest(this.matrix.row(node), map.columns), { title }),
      element("p", { class: "hint" }, hint),
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
    return [30 + x * (width - 110), 24 + y * (height - 48)];
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  nodeAt(x, y) {
    const near = (/** @type {number} */ node) => Math.hypot(this.at(node)[0] - x, this.at(node)[1] - y);
    return this.places.findIndex((_, node) => near(node) <= this.radius + 4);
  }

  /**
   * The weight that an edge shows: that of the isolated node, or the larger one of both directions.
   *
   * @param {Edge} edge
   * @returns {number}
   */
  weight({ from, to }) {
    const matrix = /** @type {import("./matrix.js").Matrix} */ (this.matrix);
    if (this.isolated < 0) return Math.max(matrix.at(from, to), matrix.at(to, from));
    if (this.isolated === from) return matrix.at(from, to);
    return this.isolated === to ? matrix.at(to, from) : 0;
  }

  /** @param {CanvasRenderingContext2D} context */
  draw(context) {
    if (!this.matrix) return;
    const most = Math.max(...this.edges.map((edge) => this.weight(edge)), WORTH_A_NUMBER);
    const main = this.isolated >= 0 ? this.isolated : this.subject;
    const own = (/** @type {Edge} */ { from, to }) => main < 0 || from === main || to === main;
    for (const edge of [...this.edges].sort((a, b) => Number(own(a)) - Number(own(b)))) {
      const weight = this.weight(edge);
      context.strokeStyle = own(edge) ? this.inks.accent : this.inks.soft;
      context.globalAlpha = weight > 0 ? 0.25 + (0.65 * weight) / most : 0.12;
      context.lineWidth = 0.75 + (8 * weight) / most;
      context.beginPath();
      context.moveTo(...this.at(edge.from));
      context.lineTo(...this.at(edge.to));
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} context */
  drawOver(context) {
    if (!this.what || !this.matrix) return;
    const { rows } = this.what.map;
    const points = rows.map((_, node) => this.at(node));
    const line = { paper: this.inks.paper, line: this.inks.ink };
    points.forEach((point, node) => {
      const main = node === this.isolated || node === this.subject;
      context.lineWidth = main ? 3 : 1.25;
      drawNode(context, point, main ? this.radius + 4 : this.radius, this.classes.of(node), line);
    });
    const names = new Names(points, this.radius, this.surface.width);
    const main = [this.isolated, this.subject].filter((node, at, all) => node >= 0 && all.indexOf(node) === at);
    const from = this.matrix.row(main[0] ?? 0);
    const order = rows.map((_, node) => node).sort((a, b) => from[b] - from[a]);
    const write = (/** @type {number} */ node) => {
      const must = main.includes(node);
      context.font = `${must ? "600 13px" : "12px"} system-ui, sans-serif`;
      names.write(context, visible(rows[node], 16), points[node], this.radius + (must ? 8 : 4), must, this.inks);
    };
    const others = order.filter((node) => !main.includes(node));
    const near = others.filter((node) => main.length > 0 && from[node] > 0);
    [...main, ...near].forEach(write);
    this.drawNumbers(context, points, names);
    if (rows.length <= MOST_NAMES) others.filter((node) => !near.includes(node)).forEach(write);
  }

  /**
   * The largest weights of the isolated node, on its edges.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {[number, number][]} points
   * @param {Names} names
   */
  drawNumbers(context, points, names) {
    if (this.isolated < 0 || !this.matrix) return;
    const linked = this.edges.filter((edge) => edge.from === this.isolated || edge.to === this.isolated);
    const shown = linked.filter((edge) => this.weight(edge) >= WORTH_A_NUMBER);
    context.font = "11px system-ui, sans-serif";
    for (const edge of shown.sort((a, b) => this.weight(b) - this.weight(a)).slice(0, MOST_NUMBERS)) {
      const [x, y] = points[edge.from].map((value, axis) => (value + points[edge.to][axis]) / 2);
      const number = written(this.weight(edge)).slice(0, 4);
      names.write(context, number, [x - context.measureText(number).width / 2, y], 0, false, this.inks);
    }
  }

  destroy() {
    this.surface.destroy();
  }
}
