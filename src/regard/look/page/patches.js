/** Attention on a picture: the patches that the chosen query looked at stand out of it. */

import { caption, chosen } from "./chosen.js";
import { choice, element } from "./elements.js";
import { listen } from "./gestures.js";
import { inks } from "./palette.js";
import { largest, ranking } from "./ranking.js";
import { Surface } from "./surface.js";
import { visible, written } from "./tokens.js";

/** @type {import("./views.js").View} */
export const patches = {
  name: "picture",
  label: "Picture",
  about: "The parts of the picture that the chosen item looked at stay lit.",
  head: "mean",
  groups: pictured,
  available: (record) => pictured(record).length > 0,
  create: (host, record, page) => new Patches(host, record, page),
};

/** @param {import("./record.js").Record} record */
function pictured(record) {
  return record.groups.filter(({ key }) => record.sides[key]?.kind === "patches");
}

class Patches {
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
    this.query = 0;
    this.image = new Image();
    this.image.onload = () => this.surface.redraw();
    this.queries = element("div", { class: "choices queries" });
    this.frame = element("div", {
      class: "surface patches",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "picture",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
    });
    this.panel = element("aside", { class: "panel" });
    host.append(this.queries, element("div", { class: "split" }, this.frame, this.panel));
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

  /** @param {import("./store.js").State} state */
  async update(state) {
    const what = chosen(pictured(this.record), state);
    const asked = `${what.map.name} ${what.head}`;
    if (asked !== this.asked) {
      this.asked = asked;
      const matrix = await what.map.matrix(what.head);
      if (asked !== this.asked) return;
      this.matrix = matrix;
      this.what = what;
      this.load();
    }
    this.query = Math.min(Math.max(state.query, 0), what.map.queries - 1);
    this.offer();
    this.describe();
    this.surface.redraw();
  }

  get side() {
    return this.record.sides[/** @type {import("./chosen.js").Chosen} */ (this.what).group.key];
  }

  /** How many items stand before the patches, such as a class token. */
  get before() {
    const { rows = 1, columns = 1 } = this.side;
    return Math.max(/** @type {import("./chosen.js").Chosen} */ (this.what).map.keys - rows * columns, 0);
  }

  load() {
    const { picture = "" } = this.side;
    if (/^data:image\//.test(picture) && this.image.src !== picture) this.image.src = picture;
  }

  /** Buttons for the queries, unless they are the patches themselves, which are chosen in the picture. */
  offer() {
    const { group, map } = /** @type {import("./chosen.js").Chosen} */ (this.what);
    const count = group.query === group.key ? this.before : map.queries;
    this.queries.replaceChildren(
      ...map.rows
        .slice(0, count)
        .map((name, at) => choice(visible(name), at === this.query, () => this.page.store.set({ query: at }))),
    );
  }

  describe() {
    if (!this.what || !this.matrix) return;
    const { map } = this.what;
    const entries = largest(this.matrix.row(this.query), map.columns);
    const title = `${visible(map.rows[this.query], 30)} looks at`;
    this.panel.replaceChildren(ranking(entries, { title }), element("p", { class: "note" }, caption(this.what)));
    this.frame.setAttribute(
      "aria-label",
      `${title} ${entries
        .slice(0, 3)
        .map(({ name, value }) => `${visible(name)} ${written(value)}`)
        .join(", ")}`,
    );
    this.frame.dataset.query = String(this.query);
  }

  /**
   * The place of the picture: as large as possible, in its own proportions.
   *
   * @param {number} width
   * @param {number} height
   */
  place(width, height) {
    const { rows = 1, columns = 1 } = this.side;
    const ratio = this.image.naturalWidth ? this.image.naturalWidth / this.image.naturalHeight : columns / rows;
    const wide = Math.min(width, height * ratio);
    return {
      x: 0,
      y: 0,
      wide,
      high: wide / ratio,
      cellWidth: wide / columns,
      cellHeight: wide / ratio / rows,
      columns,
      rows,
    };
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  choose(x, y) {
    if (!this.what || this.what.group.query !== this.what.group.key) return;
    const { cellWidth, cellHeight, columns, rows } = this.place(this.surface.width, this.surface.height);
    const [row, column] = [Math.floor(y / cellHeight), Math.floor(x / cellWidth)];
    if (row < rows && column < columns) this.page.store.set({ query: this.before + row * columns + column });
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (!this.what || event.ctrlKey || event.metaKey || event.altKey) return;
    const across = this.what.group.query === this.what.group.key ? (this.side.columns ?? 1) : 1;
    /** @type {{[key: string]: number}} */
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.page.store.set({ query: Math.min(Math.max(this.query + moves[event.key], 0), this.what.map.queries - 1) });
    this.page.announce(this.frame.getAttribute("aria-label") ?? "");
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   */
  draw(context, width, height) {
    if (!this.what) return;
    const { wide, high } = this.place(width, height);
    context.imageSmoothingEnabled = this.image.naturalWidth > wide / 2;
    if (this.image.naturalWidth) context.drawImage(this.image, 0, 0, wide, high);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   */
  drawOver(context, width, height) {
    if (!this.what || !this.matrix) return;
    const { cellWidth, cellHeight, columns, rows } = this.place(width, height);
    const weights = this.matrix.row(this.query).subarray(this.before);
    const most = weights.reduce((all, weight) => Math.max(all, weight), 1e-12);
    context.fillStyle = this.inks.paper;
    weights.forEach((weight, at) => {
      context.globalAlpha = 0.88 * (1 - Math.max(weight, 0) / most);
      context.fillRect(
        (at % columns) * cellWidth,
        Math.floor(at / columns) * cellHeight,
        cellWidth + 0.5,
        cellHeight + 0.5,
      );
    });
    context.globalAlpha = 1;
    context.strokeStyle = this.inks.line;
    for (let row = 0; row <= rows; row++) context.strokeRect(0, row * cellHeight, columns * cellWidth, 0);
    for (let column = 0; column <= columns; column++) context.strokeRect(column * cellWidth, 0, 0, rows * cellHeight);
    if (this.what.group.query !== this.what.group.key || this.query < this.before) return;
    const own = this.query - this.before;
    context.strokeStyle = this.inks.accent;
    context.lineWidth = 3;
    context.strokeRect((own % columns) * cellWidth, Math.floor(own / columns) * cellHeight, cellWidth, cellHeight);
    context.lineWidth = 1;
  }

  destroy() {
    this.surface.destroy();
  }
}
