/** Lines from each token to those it looks at, a colour for each head; pointing at a token leaves only its own. */

import { caption, chosen } from "./chosen.js";
import { drawIsolated, drawNames } from "./columns.js";
import { element } from "./elements.js";
import { Matrix } from "./matrix.js";
import { headColour, headLine, inks } from "./palette.js";
import { largest, ranking } from "./ranking.js";
import { drawStrands, shiftOf, strands } from "./strands.js";
import { Surface } from "./surface.js";
import { visible, written } from "./tokens.js";

const MOVES = "up and down move from token to token, left and right between the columns";
const PADDING = 12;
const NARROW = 480;
const ROW = { least: 22, most: 36 };

/**
 * @typedef {import("./columns.js").Token} Token
 * @typedef {{number: number, matrix: Matrix, levels: import("./strands.js").Strand[][]}} Head
 */

/** @type {import("./views.js").View} */
export const lines = {
  name: "heads",
  label: "Heads",
  about:
    "From each item, at the left, to what it looks at, a colour for each head. Point at one to see its lines alone.",
  head: "many",
  groups: (record) => record.groups,
  available: (record) => record.groups.length > 0,
  create: (host, record, page) => new Lines(host, record, page),
};

class Lines {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.page = page;
    this.asked = "";
    this.inks = inks();
    /** @type {import("./chosen.js").Chosen | null} */
    this.what = null;
    /** @type {Head[]} */
    this.heads = [];
    /** @type {Token | null} */
    this.pointed = null;
    /** @type {Token | null} */
    this.selected = null;
    this.stage = element("div", { class: "surface stage" });
    this.space = element("div", { class: "space" }, this.stage);
    this.scroller = element(
      "div",
      {
        class: "lines",
        tabindex: 0,
        role: "application",
        "aria-roledescription": "lines between tokens",
        "aria-label": "what each token looks at",
        onscroll: () => this.surface.redraw(),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
        onpointermove: (/** @type {PointerEvent} */ event) => this.point(this.tokenAt(event)),
        onpointerleave: () => this.point(null),
        onclick: (/** @type {PointerEvent} */ event) => this.choose(this.tokenAt(event)),
      },
      this.space,
    );
    this.panel = element("aside", { class: "panel" });
    host.append(element("div", { class: "split" }, this.scroller, this.panel));
    this.surface = new Surface(this.stage, {
      draw: (context, width, height) => this.draw(context, width, height),
      drawOver: (context, width, height) => this.drawOver(context, width, height),
    });
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const what = chosen(this.record.groups, state);
    const { map, heads } = what;
    const asked = `${map.id} ${heads}`;
    if (asked !== this.asked) {
      this.asked = asked;
      const matrices = await Promise.all(heads.map((head) => map.matrix(head)));
      if (asked !== this.asked) return;
      this.what = what;
      this.heads = matrices.map((matrix, at) => ({ number: heads[at], matrix, levels: strands(matrix) }));
      const where = caption({ ...what, head: heads.length === 1 ? heads[0] : "mean" }).replace("mean of ", "several ");
      this.scroller.setAttribute("aria-label", `what each token looks at, ${where}; ${MOVES}`);
      this.space.style.height = `${Math.max(map.queries, map.keys) * this.row + 2 * PADDING}px`;
    }
    this.selected = null;
    if (state.query >= 0 && map.queries)
      this.selected = { column: "query", index: Math.min(state.query, map.queries - 1) };
    else if (state.key >= 0 && map.keys) this.selected = { column: "key", index: Math.min(state.key, map.keys - 1) };
    this.reveal();
    this.surface.redraw();
    this.describe();
  }

  get isolated() {
    return this.pointed ?? this.selected;
  }

  /** @param {number} width */
  edges(width) {
    const gap = width < NARROW ? width * 0.3 : Math.min(Math.max(width * 0.42, 120), 440);
    return { left: (width - gap) / 2, right: (width + gap) / 2 };
  }

  /** The height of a row; it grows with the room there is. */
  get row() {
    const { queries = 1, keys = 1 } = this.what?.map ?? {};
    const room = (this.scroller.clientHeight - 2 * PADDING) / Math.max(queries, keys);
    return Math.min(Math.max(room, ROW.least), ROW.most);
  }

  /** @param {number} place */
  y(place) {
    return PADDING + (place + 0.5) * this.row - this.scroller.scrollTop;
  }

  /**
   * @param {number} width
   * @param {number} height
   * @returns {import("./strands.js").Space}
   */
  spaceOf(width, height) {
    const {
      row,
      scroller: { scrollTop },
    } = this;
    return {
      top: 0,
      bottom: height,
      width,
      ...this.edges(width),
      row,
      y: (place) => PADDING + (place + 0.5) * row - scrollTop,
    };
  }

  /** Scrolls to the selected token if it is not visible. */
  reveal() {
    if (!this.selected) return;
    const y = this.y(this.selected.index);
    if (y < this.row || y > this.surface.height - this.row) this.scroller.scrollTop += y - this.surface.height / 2;
  }

  /**
   * @param {MouseEvent} event
   * @returns {Token | null}
   */
  tokenAt(event) {
    if (!this.what) return null;
    const box = this.stage.getBoundingClientRect();
    const { left, right } = this.edges(box.width);
    const x = event.clientX - box.left;
    const index = Math.floor((event.clientY - box.top + this.scroller.scrollTop - PADDING) / this.row);
    const { queries, keys } = this.what.map;
    if (x <= left && index >= 0 && index < queries) return { column: "query", index };
    if (x >= right && index >= 0 && index < keys) return { column: "key", index };
    return null;
  }

  /** @param {Token | null} token */
  point(token) {
    if (token?.column === this.pointed?.column && token?.index === this.pointed?.index) return;
    this.pointed = token;
    this.surface.redrawOver();
    this.describe();
  }

  /** @param {Token | null} token */
  choose(token) {
    const same = token && token.column === this.selected?.column && token.index === this.selected.index;
    const kept = same ? null : token;
    this.page.store.set({
      query: kept?.column === "query" ? kept.index : -1,
      key: kept?.column === "key" ? kept.index : -1,
    });
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (!this.what || event.ctrlKey || event.metaKey || event.altKey) return;
    const { column, index } = this.selected ?? { column: "query", index: -1 };
    /** @type {{[key: string]: [string, number]}} */
    const moves = {
      ArrowUp: [column, index - 1],
      ArrowDown: [column, index + 1],
      PageUp: [column, index - 10],
      PageDown: [column, index + 10],
      Home: [column, 0],
      End: [column, Infinity],
      ArrowLeft: ["query", index],
      ArrowRight: ["key", index],
      Escape: ["", 0],
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [to, place] = moves[event.key];
    const last = (to === "query" ? this.what.map.queries : this.what.map.keys) - 1;
    this.page.store.set({ query: -1, key: -1, ...(to && { [to]: Math.min(Math.max(place, 0), last) }) });
    if (to) this.page.announce(this.sentence());
  }

  /** The weights of the isolated token with every item of the other column, head by head. */
  own() {
    const token = /** @type {Token} */ (this.isolated);
    return this.heads.map(({ number, matrix }) => ({
      number,
      weights: token.column === "query" ? matrix.row(token.index) : matrix.column(token.index),
    }));
  }

  /** The isolated token and the mean of its weights over the heads shown. */
  summary() {
    const { map } = /** @type {import("./chosen.js").Chosen} */ (this.what);
    const { column, index } = /** @type {Token} */ (this.isolated);
    const forward = column === "query";
    const values = Matrix.mean(this.own().map(({ weights }) => new Matrix(weights, 1, weights.length))).values;
    const of = this.heads.length > 1 ? `mean of ${this.heads.length} heads` : `head ${this.heads[0].number}`;
    return {
      title: `${forward ? `${map.who(index)} looks at` : `${visible(map.columns[index], 30)} is looked at by`} (${of})`,
      entries: largest(values, forward ? map.columns : map.labels),
      first: (forward ? map.columnRange : map.rowRange)[0],
    };
  }

  sentence() {
    if (!this.isolated || !this.what) return "";
    const { title, entries } = this.summary();
    return `${title} ${entries
      .slice(0, 3)
      .map(({ name, value, index }) => `${visible(name)} (${index}) ${written(value)}`)
      .join(", ")}`;
  }

  describe() {
    if (!this.what || !this.isolated || !this.heads.length) {
      this.panel.replaceChildren(
        element(
          "p",
          { class: "hint" },
          "Point at a token to see its lines alone, click to keep them. Up and down move from token to token.",
        ),
      );
      return;
    }
    const { title, entries, first } = this.summary();
    const numbers = this.heads.map(({ number }) => number).join(", ");
    const several = `Means of heads ${numbers}. In the picture, a number is the largest weight of any head, and names it.`;
    this.panel.replaceChildren(
      ranking(entries, { title, first }),
      element("p", { class: "note" }, this.heads.length > 1 ? several : ""),
    );
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   */
  draw(context, width, height) {
    const space = this.spaceOf(width, height);
    this.heads.forEach(({ number, levels }, at) =>
      drawStrands(context, levels, space, shiftOf(at, this.heads.length, space.row), {
        colour: headColour(number),
        dashes: headLine(number).dashes,
      }),
    );
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   */
  drawOver(context, width, height) {
    if (!this.what) return;
    const token = this.isolated;
    this.stage.classList.toggle("isolating", token !== null);
    this.stage.dataset.isolated = token ? `${token.column} ${token.index}` : "";
    const { labels: rows, columns } = this.what.map;
    const space = this.spaceOf(width, height);
    const others = token?.column === "query" ? columns : rows;
    const drawn = token ? drawIsolated(context, token, this.own(), others, space, this.inks) : 0;
    this.stage.dataset.lines = String(drawn);
    drawNames(context, "query", rows, token, space, this.inks);
    drawNames(context, "key", columns, token, space, this.inks);
  }

  destroy() {
    this.surface.destroy();
  }
}
