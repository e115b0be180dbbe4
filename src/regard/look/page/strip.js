/** A small picture for each word of a caption, or each glimpse, lit where it looked. Choosing one shows it large. */

import { element } from "./elements.js";
import { light } from "./grid.js";
import { visible } from "./tokens.js";

const HEIGHT = 64;
const MOST = 200;

export class Strip {
  /** @param {(at: number) => void} choose */
  constructor(choose) {
    this.choose = choose;
    this.host = element("div", {
      class: "strip",
      role: "group",
      "aria-label": "small pictures",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
    });
  }

  /**
   * @param {CanvasImageSource & {naturalWidth: number, naturalHeight: number}} image
   * @param {import("./matrix.js").Matrix} matrix
   * @param {string[]} names
   * @param {import("./grid.js").Grid} grid
   * @param {string} dim
   * @param {boolean} [moved]
   */
  show(image, matrix, names, grid, dim, moved = false) {
    const ratio = image.naturalWidth ? image.naturalWidth / image.naturalHeight : grid.columns / grid.rows;
    const pixels = Math.ceil(devicePixelRatio || 1);
    const [wide, high] = [Math.round(HEIGHT * Math.min(ratio, 2.5)) * pixels, HEIGHT * pixels];
    this.host.replaceChildren(
      ...names.slice(0, MOST).map((name, at) => {
        const canvas = element("canvas", { width: wide, height: high, "aria-hidden": "true" });
        canvas.style.width = `${wide / pixels}px`;
        const context = canvas.getContext("2d");
        if (context && image.naturalWidth) {
          context.drawImage(image, 0, 0, wide, high);
          light(context, matrix.row(at), grid, wide, high, dim, moved);
        }
        return element(
          "button",
          { type: "button", class: "small", "data-at": at, "aria-pressed": "false", onclick: () => this.choose(at) },
          canvas,
          element("bdi", {}, visible(name, 14)),
        );
      }),
    );
  }

  /** @param {number} chosen */
  mark(chosen) {
    for (const button of this.host.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.dataset.at === String(chosen)));
  }

  hide() {
    this.host.replaceChildren();
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const buttons = [...this.host.querySelectorAll("button")];
    const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    const to = buttons[at + ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? NaN)];
    if (at < 0 || !to) return;
    event.preventDefault();
    to.focus();
    to.click();
  }
}
