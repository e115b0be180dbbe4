/** Saliency (gradient × input) beside attention, on the same axes: weights alone are not an explanation. */

import { caption, chosen } from "./chosen.js";
import { legend } from "./cells.js";
import { element } from "./elements.js";
import { HeatMap } from "./heat_map.js";
import { Picture } from "./picture.js";
import { reading } from "./ranking.js";
import { AttentionMap } from "./record.js";
import { span } from "./scale_end.js";
import { spoken } from "./table.js";
import { visible, written } from "./tokens.js";

/** @typedef {import("./heat_map.js").Cell} Cell */

const MOVED = "How much each input item moved the answer (gradient × input): blue towards it, orange away.";

/** @type {import("./views.js").View} */
export const saliency = {
  name: "saliency",
  label: "Saliency",
  about: MOVED,
  aboutFor: (records) =>
    records.some((record) => saliency.groups(record).length)
      ? `${MOVED} At the left, on the same axes, attention.`
      : MOVED,
  head: "mean",
  groups: (record) => (pictured(record) ? [] : record.groups.filter((group) => opinion(record, group))),
  available: (record) => Object.keys(record.raw.saliency ?? {}).length > 0,
  create: (host, record, page) =>
    pictured(record) ? new Moved(host, record, page) : new Saliency(host, record, page),
};

/**
 * Whether patches of a picture moved the answer.
 *
 * @param {import("./record.js").Record} record
 */
function pictured(record) {
  const [first] = Object.values(record.raw.saliency ?? {});
  return first !== undefined && record.sides[first.key]?.kind === "patches";
}

/**
 * The saliency that has the axes of a group.
 *
 * @param {import("./record.js").Record} record
 * @param {import("./record.js").Group} group
 */
function opinion(record, group) {
  return Object.values(record.raw.saliency ?? {}).find(({ query, key }) => query === group.query && key === group.key);
}

class Saliency {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.page = page;
    this.asked = "";
    const events = {
      point: (/** @type {Cell | null} */ cell) => this.twins.forEach((twin) => twin.point(cell)),
      choose: (/** @type {Cell} */ cell) => {
        page.store.set({ query: cell.row, key: cell.column });
        page.announce(this.twins.map((twin) => twin.sentence(cell)).join("; "));
      },
    };
    const inside = element("div", { class: "twins" });
    host.append(inside);
    const titles = saliency.groups(record).length ? ["Attention", "Saliency"] : ["Saliency"];
    this.twins = titles.map((title) => new Twin(inside, title, events, page.scales));
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const groups = saliency.groups(this.record);
    const what = groups.length ? chosen(groups, state) : null;
    const raw = (what && opinion(this.record, what.group)) ?? Object.values(this.record.raw.saliency ?? {})[0];
    const asked = `${what?.map.id} ${what?.head}`;
    if (asked !== this.asked) {
      this.asked = asked;
      const gradients = new AttentionMap(raw, this.record.sides);
      const moved = await gradients.matrix("mean");
      const looked = what && (await what.map.matrix(what.head));
      if (asked !== this.asked) return;
      const { labels: rows, columns } = gradients;
      const { smallest, largest } = moved.extent();
      const signed = { smallest, end: largest, largest };
      this.twins.at(-1)?.show({ matrix: moved, rows, columns }, `what moved ${visible(raw.query)}`, signed);
      if (what && looked)
        this.twins[0].show({ matrix: looked, rows, columns }, caption(what), span(looked, what.group.kind));
    }
    for (const twin of this.twins) twin.select(state.query, state.key);
  }

  destroy() {
    for (const twin of this.twins) twin.heatMap.destroy();
  }
}

/** What moved the answer, over the picture. */
class Moved {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    /** @type {import("./picture.js").Pictured | null} */
    this.shown = null;
    this.picture = new Picture(host, record, page);
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const [raw] = Object.values(this.record.raw.saliency ?? {});
    const map = new AttentionMap(raw, this.record.sides);
    this.shown ??= {
      matrix: await map.matrix("mean"),
      rows: map.rows,
      columns: map.columns,
      query: raw.query,
      key: raw.key,
      caption: `what moved ${visible(raw.query)}`,
      moved: true,
    };
    this.picture.show(this.shown, state);
  }

  destroy() {
    this.picture.destroy();
  }
}

/** One of two heat maps that show the same cell. */
class Twin {
  /**
   * @param {HTMLElement} host
   * @param {string} title
   * @param {{point: (cell: Cell | null) => void, choose: (cell: Cell) => void}} events
   * @param {import("./scales.js").Scales} scales
   */
  constructor(host, title, events, scales) {
    this.title = title;
    this.scales = scales;
    /** @type {import("./heat_map.js").Content | null} */
    this.content = null;
    this.caption = element("span");
    this.legend = element("div");
    this.foot = element("div", { class: "foot" });
    this.table = element("div", { class: "hidden" });
    const picture = element("div", { class: "picture" });
    const heading = element("figcaption", {}, element("strong", {}, title), " ", this.caption);
    const name = title.toLowerCase();
    host.append(element("figure", { "data-twin": name }, heading, picture, this.legend, this.foot, this.table));
    this.heatMap = new HeatMap(picture, events);
  }

  /**
   * @param {import("./heat_map.js").Content} content
   * @param {string} caption
   * @param {{smallest: number, end: number, largest: number}} its the numbers of the matrix
   */
  show(content, caption, its) {
    this.content = content;
    this.caption.textContent = caption;
    this.heatMap.describe(`${this.title}, ${caption}`);
    this.scales.join(this, this.title, its, () => {
      const scale = this.scales.scale(this.title, this.title === "Saliency" || undefined);
      this.heatMap.show({ ...content, scale });
      this.legend.replaceChildren(legend(scale, written));
    });
  }

  /**
   * @param {number} query
   * @param {number} key
   */
  select(query, key) {
    if (!this.content) return;
    const { matrix, rows, columns } = this.content;
    this.heatMap.select(Math.min(query, matrix.rows - 1), Math.min(key, matrix.columns - 1));
    this.table.replaceChildren(
      spoken(matrix, { rows, columns, caption: this.caption.textContent ?? "", row: this.heatMap.selected.row }),
    );
    this.point(this.heatMap.pointed);
  }

  /** @param {Cell | null} cell */
  point(cell) {
    this.heatMap.mark(cell);
    const { row, column } = cell ?? this.heatMap.selected;
    if (!this.content || row < 0 || column < 0) return this.foot.replaceChildren();
    const { matrix, rows, columns } = this.content;
    this.foot.replaceChildren(reading(rows[row], columns[column], matrix.at(row, column)));
  }

  /** @param {Cell} cell */
  sentence({ row, column }) {
    if (!this.content || row < 0 || column < 0) return "";
    const { matrix, rows, columns } = this.content;
    const value = written(matrix.at(row, column));
    return `${visible(rows[row])} and ${visible(columns[column])}: ${value}, ${this.caption.textContent}`;
  }
}
