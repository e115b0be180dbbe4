/**
 * Two canvases, one above the other: the picture, drawn when it changes, and the overlay, drawn whenever the
 * pointer moves. Sized to their host in device pixels; coordinates are in CSS pixels.
 */

import { element } from "./elements.js";

export class Surface {
  /**
   * @param {HTMLElement} host
   * @param {{draw: (context: CanvasRenderingContext2D, width: number, height: number) => void,
   *   drawOver: (context: CanvasRenderingContext2D, width: number, height: number) => void}} drawing
   */
  constructor(host, drawing) {
    this.host = host;
    this.drawing = drawing;
    this.base = element("canvas", { class: "base", "aria-hidden": "true" });
    this.over = element("canvas", { class: "over", "aria-hidden": "true" });
    host.append(this.base, this.over);
    this.width = 0;
    this.height = 0;
    this.waiting = { base: false, over: false, frame: 0 };
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(host);
    this.resize();
  }

  resize() {
    const { clientWidth, clientHeight } = this.host;
    const ratio = devicePixelRatio || 1;
    this.width = clientWidth;
    this.height = clientHeight;
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(clientWidth * ratio);
      canvas.height = Math.round(clientHeight * ratio);
      canvas.style.width = `${clientWidth}px`;
      canvas.style.height = `${clientHeight}px`;
    }
    this.redraw();
  }

  /** Draws both, before the next frame. */
  redraw() {
    this.waiting.base = true;
    this.redrawOver();
  }

  /** Draws the overlay, before the next frame. */
  redrawOver() {
    this.waiting.over = true;
    this.waiting.frame ||= requestAnimationFrame(() => {
      if (this.waiting.base) this.paint(this.base, this.drawing.draw);
      if (this.waiting.over) this.paint(this.over, this.drawing.drawOver);
      this.waiting = { base: false, over: false, frame: 0 };
    });
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {(context: CanvasRenderingContext2D, width: number, height: number) => void} draw
   */
  paint(canvas, draw) {
    const context = canvas.getContext("2d");
    if (!context || !this.width || !this.height) return;
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.direction = "ltr";
    draw(context, this.width, this.height);
  }

  destroy() {
    this.observer.disconnect();
    cancelAnimationFrame(this.waiting.frame);
  }
}
