/** What each head tends to do, averaged over many sentences, and which heads are alike. */

import { element, shape } from "./elements.js";
import { extent } from "./matrix.js";
import { css, Scale } from "./palette.js";
import { plane } from "./scaling.js";
import { visible } from "./tokens.js";

const SIZE = 360;
const MARGIN = 26;
const FEW = 40; // so many points can all be named; of more, only the one pointed at

/** Circle, square, diamond, triangle: which side looks at which. */
const OUTLINES = ["M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0", "M-5-5h10v10h-10z", "M0-7l7 7l-7 7l-7-7z", "M0-7l7 12h-14z"];

/** The columns, and what they mean. @type {[name: string, meaning: string][]} */
const MEASURES = [
  ["entropy", "how spread out its looks are"], ["previous", "share of its looks that go to the item before"], ["same", "… to the item itself"],
  ["next", "… to the item after"], ["first", "… to the first item"], ["last", "… to the last item"], ["punctuation", "… to punctuation"],
  ["special", "… to special tokens"], ["distance", "how far away it looks, on average, in items"],
];

/** @type {import("./views.js").View} */
export const tendencies = {
  name: "tendencies",
  label: "What heads do",
  about: "How each head tends to look, averaged over many sentences. Choose a column to sort by it, a head to open it.",
  head: "none",
  layerless: true,
  groups: () => [],
  available: (record) => Boolean(record.raw.statistics?.heads.length),
  create: (host, record, page) => new Tendencies(host, record, page),
};

class Tendencies {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.page = page;
    this.statistics = /** @type {import("./record.js").Statistics} */ (record.raw.statistics);
    this.measures = MEASURES.filter(([name]) => this.statistics.heads.some((head) => typeof head[name] === "number"));
    this.sorted = { name: "", down: true };
    this.table = element("table", { class: "tendencies" });
    this.map = element("figure", { class: "alike" });
    host.append(element("p", { class: "subject" }, `Averaged over ${this.statistics.sentences} sentences.`),
      element("div", { class: "split" }, element("div", { class: "scroll" }, this.table), this.map));
    this.fill();
    this.draw();
  }

  async update() {}

  /** @param {number} at */
  name(at) {
    const { map, head } = this.statistics.heads[at];
    const found = this.record.find(String(map));
    if (!found) return `${visible(map)} ${head}`;
    const { query, key } = found.group;
    return `${query === key ? visible(query) : `${visible(query)} → ${visible(key)}`} ${visible(found.group.layers()[found.layer])}.${head}`;
  }

  /** @param {number} at */
  open(at) {
    const { map, head } = this.statistics.heads[at];
    const found = this.record.find(String(map));
    if (found) this.page.store.set({ view: "alignment", map: found.group.id, layer: found.layer, head: String(head), heads: String(head) });
  }

  /** @param {string} name */
  sort(name) {
    this.sorted = { name, down: this.sorted.name === name ? !this.sorted.down : true };
    this.fill();
    this.table.querySelector(`[data-measure="${name}"]`)?.querySelector("button")?.focus();
  }

  fill() {
    const { heads } = this.statistics;
    const { name, down } = this.sorted;
    const value = (/** @type {number} */ at) => Number(heads[at][name] ?? -Infinity);
    const order = heads.map((_, at) => at);
    if (name) order.sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)));
    const titles = this.measures.map(([measure, meaning]) => element("th", {
      scope: "col", "data-measure": measure, "aria-sort": name === measure ? (down ? "descending" : "ascending") : "none",
    }, element("button", { type: "button", title: meaning, onclick: () => this.sort(measure) }, measure)));
    const scales = this.measures.map(([measure]) => extent(heads.map((head) => Number(head[measure] ?? NaN))).largest || 1);
    this.table.replaceChildren(
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "head"), ...titles)),
      element("tbody", {}, ...order.map((at) => this.row(at, scales))));
  }

  /**
   * @param {number} at
   * @param {number[]} scales
   */
  row(at, scales) {
    const head = this.statistics.heads[at];
    const cells = this.measures.map(([measure], column) => {
      const value = head[measure];
      if (typeof value !== "number") return element("td", {}, "–");
      const bar = element("span", { class: "bar" });
      bar.style.width = `${(100 * Math.max(value, 0)) / scales[column]}%`;
      return element("td", { "data-value": value }, element("span", { class: "number" }, value.toFixed(2)), element("span", { class: "track" }, bar));
    });
    return element("tr", {
      "data-at": at, onpointerenter: () => this.mark(at, true), onpointerleave: () => this.mark(at, false),
    }, element("th", { scope: "row" }, element("button", { type: "button", class: "plain", onclick: () => this.open(at) }, this.name(at))), ...cells);
  }

  /** The heads as points: those that look alike stand near each other. */
  draw() {
    const { similarity, heads } = this.statistics;
    if (!similarity?.length) return;
    const points = plane(similarity);
    const [across, along] = [0, 1].map((axis) => extent(points.map((point) => point[axis])));
    const reach = Math.max(across.largest - across.smallest, along.largest - along.smallest, 1e-12) / 2;
    const found = heads.map(({ map }) => this.record.find(String(map)));
    const layers = found.map((each) => each?.layer ?? 0);
    const kinds = [...new Set(found.map((each) => each?.group.label ?? "others"))];
    const outline = (/** @type {number} */ at) => OUTLINES[kinds.indexOf(found[at]?.group.label ?? "others") % OUTLINES.length];
    const scale = new Scale(0, 1);
    const deepest = Math.max(...layers, 1);
    const inside = (/** @type {number} */ value, /** @type {{smallest: number, largest: number}} */ { smallest, largest }) =>
      SIZE / 2 + ((value - (smallest + largest) / 2) / reach) * (SIZE / 2 - MARGIN);
    const dots = points.map(([x, y], at) => shape("g", {
      class: "dot", "data-at": at, transform: `translate(${inside(x, across)} ${SIZE - inside(y, along)})`, onclick: () => this.open(at),
      onpointerenter: () => this.mark(at, true), onpointerleave: () => this.mark(at, false),
    }, shape("path", { d: outline(at), fill: css(scale.colour(0.25 + (0.75 * layers[at]) / deepest)) }),
    shape("text", { x: 9, y: 4 }, this.name(at).split(" ").at(-1))));
    this.map.replaceChildren(
      element("figcaption", {}, element("strong", {}, "Heads alike"), " stand near each other; deeper layers are stronger in colour."),
      element("p", { class: "outlines" }, ...(kinds.length > 1 ? kinds.map((kind, at) => element("span", {},
        shape("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, shape("path", { d: OUTLINES[at % OUTLINES.length] })), kind)) : [])),
      shape("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: points.length > FEW ? "crowded" : "", role: "img", "aria-label": "map of similar heads; the table has the same heads" }, ...dots));
    this.map.dataset.points = JSON.stringify(points);
  }

  /**
   * @param {number} at
   * @param {boolean} on
   */
  mark(at, on) {
    for (const owner of [this.table, this.map]) owner.querySelector(`[data-at="${at}"]`)?.classList.toggle("pointed", on);
  }

  destroy() {}
}
