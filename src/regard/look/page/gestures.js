/**
 * Gestures on a surface: point, choose, drag or scroll to pan, pinch or Ctrl and the wheel to zoom.
 *
 * @typedef {object} Gestures
 * @property {(x: number, y: number) => void} point
 * @property {() => void} leave
 * @property {(x: number, y: number) => void} choose
 * @property {(right: number, down: number) => boolean} pan whether anything moved: if nothing did, the page scrolls
 * @property {(factor: number, x: number, y: number) => void} zoom
 */

const STILL = 4; // a press that moves less than this many pixels is a choice, not a drag

/**
 * @param {HTMLElement} surface
 * @param {Gestures} gestures
 */
export function listen(surface, gestures) {
  /** @type {Map<number, {x: number, y: number}>} */
  const pressed = new Map();
  let moved = 0;

  /** @param {MouseEvent} event */
  const place = (event) => {
    const { left, top } = surface.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };

  surface.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pressed.set(event.pointerId, place(event));
    if (pressed.size === 1) moved = 0;
    surface.setPointerCapture(event.pointerId);
  });
  surface.addEventListener("pointermove", (event) => {
    const now = place(event);
    const before = pressed.get(event.pointerId);
    if (!before) return gestures.point(now.x, now.y);
    const other = [...pressed].find(([pointer]) => pointer !== event.pointerId)?.[1];
    pressed.set(event.pointerId, now);
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (other) {
      const factor =
        Math.hypot(now.x - other.x, now.y - other.y) / Math.max(Math.hypot(before.x - other.x, before.y - other.y), 1);
      gestures.zoom(factor, (now.x + other.x) / 2, (now.y + other.y) / 2);
    } else if (moved >= STILL) {
      gestures.pan(before.x - now.x, before.y - now.y);
    }
  });
  surface.addEventListener("pointerup", (event) => {
    if (!pressed.delete(event.pointerId) || pressed.size || moved >= STILL) return;
    const { x, y } = place(event);
    gestures.choose(x, y);
  });
  surface.addEventListener("pointercancel", (event) => pressed.delete(event.pointerId));
  surface.addEventListener("pointerleave", () => gestures.leave());
  surface.addEventListener(
    "wheel",
    (event) => {
      const { x, y } = place(event);
      const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        gestures.zoom(Math.exp(-event.deltaY * unit * 0.004), x, y);
        gestures.point(x, y);
        return;
      }
      const [right, down] = event.shiftKey && !event.deltaX ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
      if (gestures.pan(right * unit, down * unit)) {
        event.preventDefault();
        gestures.point(x, y);
      }
    },
    { passive: false },
  );
}
