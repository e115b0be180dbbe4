/** The beam: every hypothesis that was considered, step by step, and whether it was kept. */

import { choice, element, shape } from "./elements.js";
import { percent, probability, visible, written } from "./tokens.js";
import { GAP, HEAD, ROW, grown, placed } from "./tree.js";

const LETTERS = 12; // characters of a token; its whole name is in the line above
const SIZES = [0.6, 0.75, 0.9, 1, 1.25, 1.5, 2];
const HINT =
  "Point at a token, or choose one in the answer, to read its hypothesis. Arrow keys move along the tree, " +
  "Home and End along the answer.";

/** @type {import("./views.js").View} */
export const beam = {
  name: "beam",
  label: "Beam",
  about:
    "The tokens considered at each step, with their probabilities in per cent: the answer in colour, finished ones " +
    "framed, dropped ones faint. The tree continues in the next line, like text.",
  head: "none",
  layerless: true,
  groups: () => [],
  available: (record) => Boolean(record.raw.beam?.nodes.length),
  create: (host, record, page) => new Beam(host, record, page),
};

/** @typedef {import("./tree.js").Node} Node */

class Beam {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.page = page;
    this.raw = /** @type {{nodes: import("./record.js").BeamNode[]}} */ (record.raw.beam).nodes;
    this.dropped = false;
    this.size = 1;
    this.tree = grown(this.raw, this.dropped);
    /** @type {Map<number, SVGElement>} by the number of their node */
    this.labels = new Map();
    /** @type {Node[]} the hypothesis that is read */
    this.path = [];
    this.held = -1;
    this.reading = element("p", { class: "subject hypothesis" }, HINT);
    this.toggle = choice("show dropped tokens", false, () => this.showDropped(!this.dropped));
    this.scroller = element("div", { class: "beam" });
    const zoom = [
      choice("−", false, () => this.zoom(-1), { "aria-label": "smaller", "aria-pressed": null }),
      choice("+", false, () => this.zoom(1), { "aria-label": "larger", "aria-pressed": null }),
    ];
    host.append(element("div", { class: "choices" }, this.toggle, ...zoom), this.reading, this.scroller);
    this.scroller.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.scroller);
  }

  /** @param {import("./store.js").State} state */
  async update({ query }) {
    if (query === this.held) return;
    this.held = query;
    const node = this.tree.columns[query]?.find(({ state }) => state === "answer");
    if (node) this.describe(node);
    if (node) this.labels.get(node.index)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** @param {boolean} dropped */
  showDropped(dropped) {
    this.dropped = dropped;
    this.toggle.setAttribute("aria-pressed", String(dropped));
    this.tree = grown(this.raw, dropped);
    this.draw();
  }

  /** @param {number} by how many sizes larger */
  zoom(by) {
    const at = SIZES.indexOf(this.size) + by;
    this.size = by === 0 ? 1 : SIZES[Math.min(Math.max(at, 0), SIZES.length - 1)];
    this.draw();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 1 : -1);
  }

  draw() {
    const room = this.scroller.clientWidth / this.size;
    if (!room) return;
    const { nodes, columns, rows } = this.tree;
    const { bands, height } = placed(this.tree, room, wide());
    const links = nodes.flatMap((node) => (node.from ? joined(node.from, node) : []));
    const steps = bands.flatMap(({ first, count, y }) =>
      columns
        .slice(first, first + count)
        .map(([{ x }], at) => shape("text", { class: "step", x, y: y + HEAD - 8 }, first + at + 1)),
    );
    const right = Math.max(...nodes.map(({ x, width }) => x + width + GAP), room);
    const drawing = shape(
      "svg",
      {
        viewBox: `0 0 ${right} ${height}`,
        width: right * this.size,
        height: height * this.size,
        role: "tree",
        "aria-label": `hypotheses of the beam, ${columns.length} steps, at most ${rows} at a step`,
        "data-bands": bands.length,
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
      },
      shape("g", { "aria-hidden": "true" }, ...links, ...steps),
    );
    this.labels = new Map(columns.flatMap((column) => column.map((node) => [node.index, this.label(node)])));
    drawing.append(...this.labels.values());
    this.scroller.replaceChildren(drawing);
    const end = nodes.find(({ index }) => index === this.path.at(-1)?.index);
    if (end) this.describe(end);
    else this.labels.values().next().value?.setAttribute("tabindex", "0");
  }

  /** @param {Node} node */
  label(node) {
    const { x, y, width, token, logprob, state, step, index } = node;
    const inside = width - 2;
    const say = () => this.describe(node);
    return shape(
      "g",
      {
        class: `node ${state}`,
        role: "treeitem",
        tabindex: -1,
        transform: `translate(${x} ${y})`,
        "data-index": index,
        "aria-level": step + 1,
        "aria-label": `${visible(token)}, ${percent(logprob)}, ${state}, step ${step + 1}`,
        onpointerenter: say,
        onfocus: say,
      },
      shape("rect", { class: "frame", y: -10.5, width, height: 21, rx: 5 }),
      shape("rect", { class: "share", x: 1, y: 8, width: Math.max(probability(logprob) * inside, 1), height: 3, rx: 1.5 }),
      shape("text", { x: 5, y: 4 }, visible(token, LETTERS)),
      shape("text", { class: "number", x: width - 5, y: 4, "text-anchor": "end" }, share(logprob)),
    );
  }

  /** @param {Node} node */
  describe(node) {
    for (const { index } of this.path) {
      this.labels.get(index)?.classList.remove("path");
      this.labels.get(index)?.setAttribute("tabindex", "-1");
    }
    this.path = [];
    for (let at = /** @type {Node | null} */ (node); at; at = at.from) this.path.unshift(at);
    for (const { index } of this.path) this.labels.get(index)?.classList.add("path");
    for (const label of this.scroller.querySelectorAll("[tabindex='0']")) label.setAttribute("tabindex", "-1");
    this.labels.get(node.index)?.setAttribute("tabindex", "0");
    this.reading.replaceChildren(
      ...this.path.map(({ token }) => element("bdi", { class: "token" }, visible(token))),
      ` ${node.state}; this token ${percent(node.logprob)}, all of it ${percent(node.sum)}, ` +
        `sum of log-probabilities ${written(node.sum ?? -Infinity)}`,
    );
    this.reading.dataset.sum = String(node.sum);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const held = /** @type {SVGElement} */ (event.target).closest("g.node");
    const node = this.tree.nodes.find(({ index }) => String(index) === held?.getAttribute("data-index"));
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    const column = this.tree.columns.find((each) => each.includes(node)) ?? [];
    const at = column.indexOf(node);
    const answer = this.tree.nodes.filter(({ state }) => state === "answer");
    /** @type {{[key: string]: () => Node | null | undefined}} */
    const moves = {
      ArrowLeft: () => node.from,
      ArrowRight: () => node.children[0],
      ArrowUp: () => column[at - 1],
      ArrowDown: () => column[at + 1],
      Home: () => answer[0],
      End: () => answer.at(-1),
      "+": () => (this.zoom(1), node),
      "=": () => (this.zoom(1), node),
      "-": () => (this.zoom(-1), node),
      0: () => (this.zoom(0), node),
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const to = moves[event.key]();
    const label = to && this.labels.get(to.index);
    label?.focus({ preventScroll: true });
    label?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  destroy() {
    this.observer.disconnect();
  }
}

/** A measure of how wide a node must be for its token and its probability. */
function wide() {
  const context = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.body).fontFamily;
  return (/** @type {Node} */ { token, logprob }) => {
    if (!context) return 120;
    context.font = `600 13px ${family}`;
    const name = context.measureText(visible(token, LETTERS)).width;
    context.font = `11px ${family}`;
    return Math.ceil(name + context.measureText(share(logprob)).width + 17);
  };
}

/**
 * A probability in per cent, as short as possible.
 *
 * @param {number | null} logprob
 */
function share(logprob) {
  return percent(logprob).replace(/ /g, "").replace("%", "");
}

/**
 * The link between a node and its parent; a link to the next band has a piece at either end.
 *
 * @param {Node} from
 * @param {Node} to
 */
function joined(from, to) {
  const start = from.x + from.width;
  if (to.x > start) return [link(to.state, start, from.y, to.x, to.y)];
  const level = to.y - (to.row - from.row) * ROW;
  return [
    link(to.state, start, from.y, start + GAP - 4, from.y),
    link(to.state, 2, level, to.x, to.y),
  ];
}

/**
 * @param {string} state
 * @param {number} left
 * @param {number} y
 * @param {number} right
 * @param {number} to
 */
function link(state, left, y, right, to) {
  const bend = (left + right) / 2;
  return shape("path", { class: `link ${state}`, d: `M${left} ${y} C${bend} ${y} ${bend} ${to} ${right} ${to}` });
}
