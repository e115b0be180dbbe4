/**
 * A picture and what one item looks at in it: the patches looked at stay lit, or arrows lead to the strongest.
 *
 * @typedef {object} Pictured
 * @property {import("./matrix.js").Matrix} matrix
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {string} query the side that looks
 * @property {string} key the side of patches
 * @property {string} caption
 * @property {string} [note]
 * @property {boolean} [moved] whether the numbers say what moved the answer, and not what was looked at
 */

import { choice, element } from "./elements.js";
import { listen } from "./gestures.js";
import { borders, Grid, light } from "./grid.js";
import { arrow, lines, outline, path } from "./marks.js";
import { inks } from "./palette.js";
import { largest, ranking } from "./ranking.js";
import { Strip } from "./strip.js";
import { Surface } from "./surface.js";
import { visible, written } from "./tokens.js";

const ARROWS = 8;

export class Picture {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    const { store } = page;
    this.record = record;
    this.page = page;
    this.inks = inks();
    /** @type {Pictured | null} */
    this.shown = null;
    this.query = 0;
    this.marks = "";
    this.keys = new Grid({ kind: "", items: [] }, 1);
    /** @type {Grid | null} the grid of the queries, if they are patches */
    this.from = null;
    /** @type {[number, number][]} */
    this.borders = [];
    this.image = new Image();
    this.image.onload = () => this.fill();
    this.strip = new Strip((at) => store.set({ query: at }));
    this.tokens = element("div", { class: "choices queries" });
    this.frame = element("div", {
      class: "surface patches",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "picture",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
    });
    this.arrows = choice("arrows to the strongest patches", false, () =>
      store.set({ marks: store.state.marks === "arrows" ? "light" : "arrows" }),
    );
    this.details = element("div", { class: "details" });
    const panel = element("aside", { class: "panel" }, this.tokens, this.details, this.arrows);
    host.append(this.strip.host, element("div", { class: "split" }, this.frame, panel));
    this.surface = new Surface(this.frame, {
      draw: (context, width, height) => this.draw(context, width, height),
      drawOver: (context, width, height) => this.drawOver(context, width, height),
    });
    listen(this.frame, {
      point: () => {},
      leave: () => {},
      pan: () => false,
      zoom: () => {},
      choose: (x, y) => this.choose(x, y),
    });
  }

  /**
   * @param {Pictured} shown the same object as before if nothing but the state changed
   * @param {import("./store.js").State} state
   */
  show(shown, state) {
    if (shown !== this.shown) {
      const { matrix, query, key } = shown;
      this.shown = shown;
      this.keys = new Grid(this.record.sides[key], matrix.columns);
      this.from =
        this.record.sides[query]?.kind === "patches" ? new Grid(this.record.sides[query], matrix.rows) : null;
      this.borders = query === key ? borders(matrix, this.keys) : [];
      this.load();
      this.fill();
    }
    this.marks = state.marks;
    const first = this.from && this.from.before === 0 ? this.from.middle : 0;
    this.query = Math.min(state.query < 0 ? first : state.query, shown.matrix.rows - 1);
    this.offer();
    this.describe();
    this.surface.redraw();
  }

  /** The picture of the side, or of another side of the same picture. */
  load() {
    const { key } = /** @type {Pictured} */ (this.shown);
    const own = this.record.sides[key].picture;
    const picture = own ?? Object.values(this.record.sides).find((side) => side.picture)?.picture ?? "";
    if (/^data:image\//.test(picture) && this.image.src !== picture) this.image.src = picture;
  }

  fill() {
    if (!this.shown) return;
    const { matrix, rows, moved } = this.shown;
    this.frame.style.setProperty("--ratio", String(this.ratio));
    this.surface.redraw();
    if (this.from || rows.length < 2) this.strip.hide();
    else this.strip.show(this.image, matrix, rows, this.keys, this.inks.dim, moved);
    this.strip.mark(this.query);
  }

  /** Whether the chosen item is a patch, so that arrows can begin there. */
  get patch() {
    return this.from !== null && this.query >= this.from.before;
  }

  get pointing() {
    return this.patch && this.marks === "arrows";
  }

  /** Buttons for the items before the patches, which are not in the picture. */
  offer() {
    const { rows } = /** @type {Pictured} */ (this.shown);
    this.tokens.replaceChildren(
      ...rows
        .slice(0, this.from?.before ?? 0)
        .map((name, at) => choice(visible(name), at === this.query, () => this.page.store.set({ query: at }))),
    );
    this.arrows.hidden = !this.patch;
    this.arrows.setAttribute("aria-pressed", String(this.marks === "arrows"));
    this.strip.mark(this.query);
  }

  describe() {
    if (!this.shown) return;
    const { matrix, rows, columns, caption, note, moved } = this.shown;
    const weights = matrix.row(this.query);
    const entries = largest(weights, columns);
    const title = `${visible(rows[this.query], 30)} ${moved ? "was moved by" : "looks at"}`;
    const most = weights.subarray(this.keys.before).reduce((all, weight) => Math.max(all, Math.abs(weight)), 0);
    const how = this.from ? "Click on a patch to see where it looks. " : "";
    const lit = this.pointing
      ? `The arrows lead to the ${ARROWS} patches with the largest weights.`
      : `${moved ? "The strongest colour is" : "Fully lit is the weight"} ${written(most)}.`;
    this.details.replaceChildren(
      ranking(entries, { title }),
      element("p", { class: "note" }, how + lit),
      element("p", { class: "note" }, caption),
      element("p", { class: "note" }, note ?? ""),
    );
    this.frame.setAttribute(
      "aria-label",
      `${title} ${entries
        .slice(0, 3)
        .map(({ name, value }) => `${visible(name)} ${written(value)}`)
        .join(", ")}`,
    );
    this.frame.dataset.query = String(this.query);
    this.frame.dataset.borders = String(this.borders.length);
  }

  /**
   * The size of the picture: as large as possible, in its own proportions.
   *
   * @param {number} width
   * @param {number} height
   * @returns {[wide: number, high: number]}
   */
  size(width, height) {
    const wide = Math.floor(Math.min(width, height * this.ratio));
    return [wide, Math.floor(wide / this.ratio)];
  }

  get ratio() {
    const { naturalWidth, naturalHeight } = this.image;
    return naturalWidth ? naturalWidth / naturalHeight : this.keys.columns / this.keys.rows;
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  choose(x, y) {
    const item = this.from?.at(x, y, ...this.size(this.surface.width, this.surface.height)) ?? -1;
    if (item >= 0) this.page.store.set({ query: item });
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (!this.shown || event.ctrlKey || event.metaKey || event.altKey) return;
    const across = this.patch ? (this.from?.columns ?? 1) : 1;
    /** @type {{[key: string]: number}} */
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const last = this.shown.matrix.rows - 1;
    this.page.store.set({ query: Math.min(Math.max(this.query + moves[event.key], 0), last) });
    this.page.announce(this.frame.getAttribute("aria-label") ?? "");
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   */
  draw(context, width, height) {
    if (!this.image.naturalWidth) return;
    const [wide, high] = this.size(width, height);
    context.imageSmoothingEnabled = this.image.naturalWidth > wide / 2;
    context.drawImage(this.image, 0, 0, wide, high);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   */
  drawOver(context, width, height) {
    if (!this.shown) return;
    const [wide, high] = this.size(width, height);
    const { matrix, query, moved } = this.shown;
    const weights = matrix.row(this.query);
    if (!this.pointing) light(context, weights, this.keys, wide, high, this.inks.dim, moved);
    lines(context, this.keys, this.borders, wide, high, this.inks);
    const colours = { colour: this.inks.accent, rim: this.inks.paper };
    if (this.pointing) this.drawArrows(context, weights, wide, high, colours);
    if (this.patch && this.from) outline(context, this.from.box(this.query, wide, high), colours);
    if (this.record.sides[query]?.kind !== "steps") return;
    const points = Array.from({ length: matrix.rows }, (_, row) => this.keys.focus(matrix.row(row), wide, high));
    path(context, points, this.query, colours);
    this.frame.dataset.path = String(points.filter(Boolean).length);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Float32Array} weights
   * @param {number} wide
   * @param {number} high
   * @param {{colour: string, rim: string}} colours
   */
  drawArrows(context, weights, wide, high, colours) {
    const start = /** @type {Grid} */ (this.from).centre(this.query, wide, high);
    const strongest = largest(weights, [], weights.length)
      .filter(({ index }) => index >= this.keys.before && !(this.keys.centre(index, wide, high).join() === start.join()))
      .slice(0, ARROWS);
    for (const { value, index } of strongest.reverse()) {
      const width = 1 + 4 * (value / strongest[strongest.length - 1].value);
      arrow(context, start, this.keys.centre(index, wide, high), width, colours);
    }
    this.frame.dataset.arrows = strongest.map(({ index }) => index).join(" ");
  }

  destroy() {
    this.surface.destroy();
  }
}
