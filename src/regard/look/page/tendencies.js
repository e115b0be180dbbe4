/** Statistics of each head, averaged over many sentences, and which heads are alike. */

import { element } from "./elements.js";
import { likeness } from "./likeness.js";
import { extent } from "./matrix.js";
import { visible } from "./tokens.js";

/** The columns, and what they mean. @type {[name: string, meaning: string][]} */
const MEASURES = [
  ["entropy", "how widely its attention is spread, in nats"],
  ["previous", "share of its attention on the item before"],
  ["same", "… on the item itself"],
  ["next", "… on the item after"],
  ["first", "… on the first item"],
  ["last", "… on the last item"],
  ["punctuation", "… on punctuation"],
  ["special", "… on special tokens"],
  ["distance", "how far away it looks, on average, in items"],
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
    host.append(
      element("p", { class: "subject" }, `Averaged over ${this.statistics.sentences} sentences.`),
      element("div", { class: "split" }, element("div", { class: "scroll" }, this.table), this.map),
    );
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
    const who = query === key ? visible(query) : `${visible(query)} → ${visible(key)}`;
    return `${who} ${visible(found.group.layers()[found.layer])}.${head}`;
  }

  /** @param {number} at */
  open(at) {
    const { map, head } = this.statistics.heads[at];
    const found = this.record.find(String(map));
    if (found)
      this.page.store.set({
        view: "alignment",
        map: found.group.id,
        layer: found.layer,
        head: String(head),
        heads: String(head),
      });
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
    const titles = this.measures.map(([measure, meaning]) =>
      element(
        "th",
        {
          scope: "col",
          "data-measure": measure,
          "aria-sort": name === measure ? (down ? "descending" : "ascending") : "none",
        },
        element("button", { type: "button", title: meaning, onclick: () => this.sort(measure) }, measure),
      ),
    );
    const scales = this.measures.map(
      ([measure]) => extent(heads.map((head) => Number(head[measure] ?? NaN))).largest || 1,
    );
    this.table.replaceChildren(
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "head"), ...titles)),
      element("tbody", {}, ...order.map((at) => this.row(at, scales))),
    );
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
      return element(
        "td",
        { "data-value": value },
        element("span", { class: "number" }, value.toFixed(2)),
        element("span", { class: "track" }, bar),
      );
    });
    return element(
      "tr",
      {
        "data-at": at,
        onpointerenter: () => this.mark(at, true),
        onpointerleave: () => this.mark(at, false),
      },
      element(
        "th",
        { scope: "row" },
        element("button", { type: "button", class: "plain", onclick: () => this.open(at) }, this.name(at)),
      ),
      ...cells,
    );
  }

  /** A map of heads that are alike, where it is known how far they are from each other. */
  draw() {
    const { similarity, heads } = this.statistics;
    if (!similarity?.length) return;
    const points = heads.map(({ map, head }, at) => {
      const found = this.record.find(String(map));
      return {
        at,
        label: `${found?.layer ?? 0}.${head}`,
        layer: found?.layer ?? 0,
        kind: found?.group.label ?? "others",
      };
    });
    const events = { open: (/** @type {number} */ at) => this.open(at), mark: this.mark.bind(this) };
    likeness(this.map, points, similarity, events);
  }

  /**
   * @param {number} at
   * @param {boolean} on
   */
  mark(at, on) {
    for (const owner of [this.table, this.map])
      owner.querySelector(`[data-at="${at}"]`)?.classList.toggle("pointed", on);
  }

  destroy() {}
}
