/** A series, its forecast with intervals, and below it the weights of a chosen step over the past. */

import { caption, chosen } from "./chosen.js";
import { choice, element } from "./elements.js";
import { listen } from "./gestures.js";
import { inks } from "./palette.js";
import { drawAxes, drawSeries, drawStep, drawWeights, FAINT, frameOf } from "./plot.js";
import { largest, ranking } from "./ranking.js";
import { Surface } from "./surface.js";
import { Timeline } from "./timeline.js";
import { visible } from "./tokens.js";

/** @type {import("./views.js").View} */
export const series = {
  name: "series",
  label: "Series",
  about: "The bars below the series are the weights of the chosen step over the past.",
  head: "mean",
  groups: timed,
  available: (record) => timed(record).length > 0,
  create: (host, record, page) => new Series(host, record, page),
};

/** @param {import("./record.js").Record} record */
function timed(record) {
  return record.groups.filter(({ key }) => record.sides[key]?.kind === "steps" && record.sides[key].values);
}

class Series {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.page = page;
    this.inks = inks();
    this.timeline = new Timeline(record.sides);
    this.asked = "";
    /** @type {import("./chosen.js").Chosen | null} */
    this.what = null;
    /** @type {import("./matrix.js").Matrix | null} */
    this.matrix = null;
    this.query = 0;
    this.queries = element("div", { class: "choices queries" });
    this.frame = element("div", {
      class: "surface series",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "series",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
    });
    this.details = element("div", { class: "details" });
    const panel = element("aside", { class: "panel" }, this.legend(), this.queries, this.details);
    host.append(element("div", { class: "split" }, this.frame, panel));
    this.surface = new Surface(this.frame, {
      draw: (context, width, height) => this.draw(context, width, height),
      drawOver: (context, width, height) => this.drawOver(context, width, height),
    });
    listen(this.frame, {
      point: () => {},
      leave: () => {},
      pan: () => false,
      zoom: () => {},
      choose: (x) => this.choose(x),
    });
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const what = chosen(timed(this.record), state);
    const asked = `${what.map.id} ${what.head}`;
    if (asked !== this.asked) {
      this.asked = asked;
      const matrix = await what.map.matrix(what.head);
      if (asked !== this.asked) return;
      this.matrix = matrix;
      this.what = what;
    }
    const { group, map } = what;
    const first = group.query === group.key ? map.queries - 1 : 0;
    this.query = Math.min(state.query < 0 ? first : state.query, map.queries - 1);
    this.offer();
    this.describe();
    this.surface.redraw();
  }

  /** Lines and intervals by their colours. */
  legend() {
    const entries = this.timeline.series.flatMap(({ label, side, ahead }) => [
      element("li", { class: ahead ? "ahead" : "past" }, element("span", { class: "swatch" }), visible(label)),
      ...[...(side.bands ?? [])]
        .sort(([a], [b]) => b - a)
        .map(([level], at) => {
          const swatch = element("span", { class: "swatch band" });
          swatch.style.opacity = String(1 - (1 - FAINT) ** (at + 1)); // narrower bands lie on wider ones
          return element("li", {}, swatch, `${Math.round(100 * level)} % interval`);
        }),
    ]);
    return element("ul", { class: "classes", "aria-label": "lines" }, ...entries);
  }

  /** Buttons for queries that are no steps of a series, and so cannot be chosen in the plot. */
  offer() {
    const { group, map } = /** @type {import("./chosen.js").Chosen} */ (this.what);
    const outside = this.timeline.places.has(group.query) ? [] : map.rows;
    this.queries.replaceChildren(
      ...outside.map((name, at) =>
        choice(visible(name), at === this.query, () => this.page.store.set({ query: at })),
      ),
    );
  }

  describe() {
    if (!this.what || !this.matrix) return;
    const { map, group } = this.what;
    const title = `${visible(map.rows[this.query], 30)} looks at`;
    const entries = largest(this.matrix.row(this.query), map.columns);
    this.details.replaceChildren(
      this.reading(group.query),
      ranking(entries, { title }),
      element("p", { class: "note" }, caption(this.what)),
      element("p", { class: "note" }, map.notes),
    );
    this.frame.setAttribute("aria-label", `${title} ${entries.slice(0, 3).map(({ name }) => visible(name)).join(", ")}`);
    this.frame.dataset.query = String(this.query);
  }

  /**
   * The number of the chosen step, and its intervals.
   *
   * @param {string} name of the side that looks
   */
  reading(name) {
    const side = this.record.sides[name];
    const value = side?.values?.[this.query];
    if (value === undefined || value === null) return element("p", { class: "note" });
    const bands = (side.bands ?? []).map(([level, lows, highs]) => {
      const ends = [lows, highs].map((all) => plain(all[this.query]));
      return element("p", { class: "note" }, `${Math.round(100 * level)} %: ${ends[0]} to ${ends[1]}`);
    });
    return element(
      "div",
      { class: "reading", "data-value": value },
      element("p", {}, element("bdi", {}, visible(side.items[this.query], 40))),
      element("strong", {}, plain(value)),
      ...bands,
    );
  }

  /** @param {number} x */
  choose(x) {
    if (!this.what) return;
    const { left, right } = frameOf(this.surface.width, this.surface.height);
    const step = ((x - left) / (right - left)) * this.timeline.steps.length - 0.5;
    const item = this.timeline.item(this.what.group.query, step);
    if (item >= 0 && item < this.what.map.queries) this.page.store.set({ query: item });
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (!this.what || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.what.map.queries - 1;
    /** @type {{[key: string]: number}} */
    const moves = { ArrowLeft: this.query - 1, ArrowRight: this.query + 1, Home: 0, End: last };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.page.store.set({ query: Math.min(Math.max(moves[event.key], 0), last) });
    this.page.announce(this.frame.getAttribute("aria-label") ?? "");
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   */
  draw(context, width, height) {
    const frame = frameOf(width, height);
    drawAxes(context, this.timeline, frame, this.inks);
    drawSeries(context, this.timeline, frame, this.inks);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   */
  drawOver(context, width, height) {
    if (!this.what || !this.matrix) return;
    const { group } = this.what;
    const frame = frameOf(width, height);
    const places = this.timeline.places.get(group.key) ?? [];
    drawWeights(context, this.timeline, this.matrix.row(this.query), places, frame, this.inks);
    drawStep(context, this.timeline, group.query, this.query, frame, this.inks);
  }

  destroy() {
    this.surface.destroy();
  }
}

/** @param {number | null} value */
function plain(value) {
  return value === null ? "none" : String(Number(value.toPrecision(5))).replace("-", "−");
}
