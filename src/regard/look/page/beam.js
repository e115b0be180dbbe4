/** The beam: every hypothesis that was weighed, step by step, with what became of it. */

import { choice, element, shape } from "./elements.js";
import { percent, probability, visible, written } from "./tokens.js";

const STEP = 152;
const ROW = 30;
const MARGIN = 28;

/** @type {import("./views.js").View} */
export const beam = {
  name: "beam",
  label: "Beam",
  about: "What the search weighed, step by step: the answer in colour, what finished framed, what was dropped faint.",
  head: "none",
  layerless: true,
  groups: () => [],
  available: (record) => Boolean(record.raw.beam?.nodes.length),
  create: (host, record, page) => new Beam(host, record, page),
};

/**
 * @typedef {import("./record.js").BeamNode} BeamNode
 * @typedef {BeamNode & {index: number, from: Node | null, children: Node[], x: number, y: number}} Node
 */

class Beam {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.page = page;
    this.record = record;
    this.dropped = true;
    this.reading = element(
      "p",
      { class: "subject" },
      "Point at a token to read its hypothesis. Arrow keys move along the tree.",
    );
    this.toggle = choice("show what was dropped", true, () => {
      this.dropped = !this.dropped;
      this.toggle.setAttribute("aria-pressed", String(this.dropped));
      this.draw();
    });
    this.scroller = element("div", { class: "beam" });
    host.append(element("div", { class: "choices" }, this.toggle), this.reading, this.scroller);
    /** @type {Node[]} */
    this.nodes = [];
    this.draw();
  }

  async update() {}

  draw() {
    const { nodes, width, height } = arranged(
      /** @type {{nodes: import("./record.js").BeamNode[]}} */ (this.record.raw.beam).nodes,
      this.dropped,
    );
    this.nodes = nodes;
    const links = nodes.map((node) => node.from && link(node.from, node));
    const drawing = shape(
      "svg",
      {
        width,
        height,
        role: "tree",
        "aria-label": "hypotheses of the beam",
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
      },
      shape("g", { "aria-hidden": "true" }, ...links),
      ...nodes.map((node, at) => this.label(node, at === 0)),
    );
    this.scroller.replaceChildren(drawing);
  }

  /**
   * @param {Node} node
   * @param {boolean} first
   */
  label(node, first) {
    const share = probability(node.logprob);
    const say = () => this.describe(node);
    return shape(
      "g",
      {
        class: `node ${node.state}`,
        role: "treeitem",
        tabindex: first ? 0 : -1,
        transform: `translate(${node.x} ${node.y})`,
        "data-index": node.index,
        "aria-label": `${visible(node.token)}, ${percent(node.logprob)}, ${node.state}, step ${node.step}`,
        onpointerenter: say,
        onfocus: say,
      },
      shape("rect", { class: "frame", x: -6, y: -12, width: STEP - 22, height: 24, rx: 6 }),
      shape("rect", { class: "share", x: -6, y: 9, width: Math.max(share * (STEP - 22), 1), height: 3, rx: 1.5 }),
      shape("text", { y: 3 }, visible(node.token, 9)),
      shape("text", { class: "number", x: STEP - 34, y: 3, "text-anchor": "end" }, percent(node.logprob)),
    );
  }

  /** @param {Node} node */
  describe(node) {
    /** @type {Node[]} */
    const path = [];
    for (let at = /** @type {Node | null} */ (node); at; at = at.from) path.unshift(at);
    this.reading.replaceChildren(
      ...path.map(({ token }) => element("bdi", { class: "token" }, visible(token))),
      ` ${node.state}; this token ${percent(node.logprob)}, sum of log-probabilities ${written(node.sum ?? -Infinity)}`,
    );
    this.reading.dataset.sum = String(node.sum);
    for (const label of this.scroller.querySelectorAll("g.node")) {
      label.classList.toggle(
        "path",
        path.some(({ index }) => label.getAttribute("data-index") === String(index)),
      );
    }
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const held = /** @type {SVGElement} */ (event.target).closest("g.node");
    const node = this.nodes.find(({ index }) => String(index) === held?.getAttribute("data-index"));
    if (!node) return;
    const column = this.nodes.filter(({ step }) => step === node.step).sort((a, b) => a.y - b.y);
    const at = column.indexOf(node);
    /** @type {{[key: string]: Node | null | undefined}} */
    const moves = {
      ArrowLeft: node.from,
      ArrowRight: node.children[0],
      ArrowUp: column[at - 1],
      ArrowDown: column[at + 1],
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const to = moves[event.key];
    const target = to && this.scroller.querySelector(`g.node[data-index="${to.index}"]`);
    if (!(target instanceof SVGElement)) return;
    held?.setAttribute("tabindex", "-1");
    target.setAttribute("tabindex", "0");
    target.focus();
  }

  destroy() {}
}

/**
 * Gives every node its place: a column for each step; a parent stands level with its best child, so that the answer
 * is one line. Whatever the answer grew from is part of the answer.
 *
 * @param {import("./record.js").BeamNode[]} raw
 * @param {boolean} dropped whether to keep those that were dropped
 */
function arranged(raw, dropped) {
  /** @type {Node[]} */
  const all = raw.map((node, index) => ({ ...node, index, from: null, children: [], x: 0, y: 0 }));
  for (const node of all) {
    if (node.state === "answer") for (let at = all[node.parent]; at; at = all[at.parent]) at.state = "answer";
  }
  const nodes = dropped ? all : all.filter(({ state }) => state !== "dropped");
  for (const node of nodes) {
    node.from = all[node.parent] ?? null;
    node.from?.children.push(node);
  }
  const rank = (/** @type {Node} */ { state }) => ["answer", "finished", "kept", "dropped"].indexOf(state);
  const best = (/** @type {Node} */ a, /** @type {Node} */ b) => rank(a) - rank(b) || (b.sum ?? -1e9) - (a.sum ?? -1e9);
  let row = 0;
  let steps = 0;
  const place = (/** @type {Node} */ node, /** @type {number} */ depth) => {
    node.x = MARGIN + depth * STEP;
    node.y = MARGIN + row * ROW;
    steps = Math.max(steps, depth + 1);
    node.children.sort(best).forEach((child, at) => {
      if (at > 0) row += 1;
      place(child, depth + 1);
    });
  };
  nodes
    .filter(({ from }) => from === null)
    .sort(best)
    .forEach((root, at) => {
      if (at > 0) row += 1;
      place(root, 0);
    });
  return { nodes, width: 2 * MARGIN + steps * STEP, height: 2 * MARGIN + row * ROW };
}

/**
 * @param {Node} from
 * @param {Node} to
 */
function link(from, to) {
  const start = from.x + STEP - 28;
  const end = to.x - 6;
  const bend = (start + end) / 2;
  return shape("path", {
    class: `link ${to.state}`,
    d: `M${start} ${from.y} C${bend} ${from.y} ${bend} ${to.y} ${end} ${to.y}`,
  });
}
