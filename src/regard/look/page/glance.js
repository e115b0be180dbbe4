/** All layers and heads at a glance: a thumbnail each, drawn when it comes into sight. Choosing one opens it. */

import { chosen } from "./chosen.js";
import { choice, element } from "./elements.js";
import { Cells } from "./cells.js";
import { Matrix } from "./matrix.js";
import { Scale } from "./palette.js";
import { span } from "./scale_end.js";

const LARGEST = 96; // cells along a side; longer maps are shown by the largest weight of each block

/** @type {import("./views.js").View} */
export const glance = {
  name: "all",
  label: "All",
  about: "Every layer (down) and head (across), each on its own colour scale. Choose one to open it.",
  head: "none",
  layerless: true,
  groups: (record) => record.groups,
  available: (record) => record.maps.some((map) => map.heads.length > 1) || record.maps.length > 1,
  create: (host, record, page) => new Glance(host, record, page),
};

class Glance {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.page = page;
    this.shown = "";
    this.opens = "alignment";
    this.grid = element("div", {
      class: "glance",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
    });
    this.choices = element("div", { class: "choices" });
    host.append(this.choices, this.grid);
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const { isIntersecting, target } of entries)
          if (isIntersecting) this.draw(/** @type {HTMLCanvasElement} */ (target));
      },
      { rootMargin: "200px" },
    );
    /** @type {WeakMap<Element, {map: import("./record.js").AttentionMap, head: number}>} */
    this.waiting = new WeakMap();
    this.offer();
  }

  /** The view that opens when a thumbnail is chosen. */
  offer() {
    const views = [
      ["alignment", "as a heat map"],
      ["heads", "as lines"],
    ];
    this.choices.replaceChildren(
      "Open ",
      ...views.map(([name, label]) =>
        choice(label, this.opens === name, () => {
          this.opens = name;
          this.offer();
        }),
      ),
    );
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const { group, layer, head } = chosen(this.record.groups, state);
    if (group.id !== this.shown) {
      this.shown = group.id;
      this.fill(group);
    }
    for (const button of this.grid.querySelectorAll("button")) {
      button.classList.toggle("chosen", button.dataset.layer === String(layer) && button.dataset.head === String(head));
    }
  }

  /** @param {import("./record.js").Group} group */
  fill(group) {
    this.observer.disconnect();
    const heads = [...new Set(group.maps.flatMap((map) => map.heads))].sort((a, b) => a - b);
    const layers = group.layers();
    this.grid.style.setProperty("--heads", String(heads.length));
    const head = [
      element("span", { class: "corner" }),
      ...heads.map((number) => element("span", { class: "across" }, `head ${number}`)),
    ];
    const rows = group.maps.flatMap((map, layer) => [
      element("span", { class: "down" }, /^\d+$/.test(layers[layer]) ? `layer ${layers[layer]}` : layers[layer]),
      ...heads.map((number) => (map.heads.includes(number) ? this.thumbnail(group, layer, number) : element("span"))),
    ]);
    this.grid.replaceChildren(...head, ...rows);
  }

  /**
   * @param {import("./record.js").Group} group
   * @param {number} layer
   * @param {number} head
   */
  thumbnail(group, layer, head) {
    const map = group.maps[layer];
    const canvas = element("canvas", { width: 1, height: 1 });
    canvas.style.aspectRatio = String(Math.min(Math.max(map.keys / Math.max(map.queries, 1), 0.5), 2));
    const name = `layer ${group.layers()[layer]}, head ${head}`;
    const open = () =>
      this.page.store.set({ view: this.opens, map: group.id, layer, head: String(head), heads: String(head) });
    this.waiting.set(canvas, { map, head });
    this.observer.observe(canvas);
    return element(
      "button",
      {
        type: "button",
        title: name,
        "aria-label": `open ${name}`,
        "data-layer": layer,
        "data-head": head,
        onclick: open,
      },
      canvas,
    );
  }

  /** @param {HTMLCanvasElement} canvas */
  async draw(canvas) {
    const what = this.waiting.get(canvas);
    if (!what) return;
    this.waiting.delete(canvas);
    this.observer.unobserve(canvas);
    const cells = new Cells();
    const matrix = await what.map.matrix(what.head);
    const { smallest, end } = span(matrix, what.map.raw.kind);
    cells.paint(shrunk(matrix), new Scale(smallest, end));
    canvas.width = cells.image.width;
    canvas.height = cells.image.height;
    canvas.getContext("2d")?.drawImage(cells.image, 0, 0);
    canvas.dataset.drawn = "";
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const buttons = [...this.grid.querySelectorAll("button")];
    const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (event.target));
    const across = Number(this.grid.style.getPropertyValue("--heads"));
    /** @type {{[key: string]: number}} */
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across };
    if (at < 0 || !(event.key in moves)) return;
    event.preventDefault();
    buttons[at + moves[event.key]]?.focus();
  }

  destroy() {
    this.observer.disconnect();
  }
}

/**
 * @param {Matrix} matrix
 * @returns {Matrix} at most LARGEST cells along each side, each the largest of those it stands for
 */
function shrunk(matrix) {
  const rows = Math.min(matrix.rows, LARGEST);
  const columns = Math.min(matrix.columns, LARGEST);
  if (rows === matrix.rows && columns === matrix.columns) return matrix;
  const small = new Matrix(new Float32Array(rows * columns), rows, columns);
  for (let row = 0; row < matrix.rows; row++) {
    const into = small.row(Math.floor((row * rows) / matrix.rows));
    for (let column = 0; column < matrix.columns; column++) {
      const at = Math.floor((column * columns) / matrix.columns);
      into[at] = Math.max(into[at], matrix.at(row, column));
    }
  }
  return small;
}
