/**
 * The plot of series over time on a canvas, with bars for weights below it.
 *
 * @typedef {import("./timeline.js").Timeline} Timeline
 * @typedef {{left: number, right: number, top: number, bottom: number, floor: number}} Frame the series are between
 *   top and bottom, the bars between bottom and floor
 * @typedef {{paper: string, ink: string, soft: string, line: string, accent: string}} Inks
 */

import { ticks } from "./timeline.js";
import { visible, written } from "./tokens.js";

const FONT = "11.5px system-ui, sans-serif";
const APART = 34; // pixels between two labels of the vertical axis
export const FAINT = 0.18; // the opacity of an interval

/**
 * @param {number} width
 * @param {number} height
 * @returns {Frame}
 */
export function frameOf(width, height) {
  const floor = height - 22;
  return { left: 56, right: width - 10, top: 10, bottom: Math.round(floor * 0.76), floor };
}

/**
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
function scales(timeline, { left, right, top, bottom }) {
  const { low, high } = timeline.extent();
  const each = (right - left) / Math.max(timeline.steps.length, 1);
  return {
    each,
    low,
    high,
    x: (/** @type {number} */ step) => left + (step + 0.5) * each,
    y: (/** @type {number} */ value) => bottom - 8 - ((value - low) / (high - low)) * (bottom - 8 - top),
  };
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {Inks} inks
 */
export function drawAxes(context, timeline, frame, inks) {
  const { x, y, low, high, each } = scales(timeline, frame);
  const { left, right, top, bottom, floor } = frame;
  context.font = FONT;
  context.strokeStyle = inks.line;
  context.fillStyle = inks.soft;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const { value, label } of ticks(low, high, Math.floor((bottom - top) / APART))) {
    stroke(context, left, Math.round(y(value)) + 0.5, right, Math.round(y(value)) + 0.5);
    context.fillText(label, left - 8, y(value));
  }
  stroke(context, left, floor + 0.5, right, floor + 0.5);
  context.textAlign = "center";
  context.textBaseline = "top";
  const widest = Math.max(...timeline.steps.map((name) => context.measureText(cut(name)).width));
  const every = roundStep(Math.ceil((widest + 18) / each));
  for (let step = 0; step < timeline.steps.length; step += every) {
    const half = context.measureText(cut(timeline.steps[step])).width / 2;
    if (step > 0 && x(step) + half > right + 10) break; // the edge would cut the name
    context.fillText(cut(timeline.steps[step]), Math.max(x(step), half), floor + 6);
    stroke(context, x(step), floor, x(step), floor + 4);
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {Inks} inks
 */
export function drawSeries(context, timeline, frame, inks) {
  const { x, y } = scales(timeline, frame);
  context.lineJoin = "round";
  for (const { name, side, ahead } of timeline.series) {
    const places = timeline.places.get(name) ?? [];
    const joint = timeline.joint(name);
    context.fillStyle = inks.accent;
    context.globalAlpha = FAINT;
    for (const [, lows, highs] of side.bands ?? []) {
      const known = places.map((_, at) => at).filter((at) => lows[at] !== null && highs[at] !== null);
      context.beginPath();
      if (joint) context.moveTo(x(joint.place), y(joint.value));
      for (const at of known) context.lineTo(x(places[at]), y(/** @type {number} */ (highs[at])));
      for (const at of known.reverse()) context.lineTo(x(places[at]), y(/** @type {number} */ (lows[at])));
      context.fill();
    }
    context.globalAlpha = 1;
    context.strokeStyle = ahead ? inks.accent : inks.ink;
    context.lineWidth = ahead ? 2.25 : 1.5;
    context.beginPath();
    if (joint) context.moveTo(x(joint.place), y(joint.value));
    let down = !!joint;
    (side.values ?? []).forEach((value, at) => {
      if (value === null) down = false;
      else if (down) context.lineTo(x(places[at]), y(value));
      else context.moveTo(x(places[at]), y(value));
      if (value !== null) down = true;
    });
    context.stroke();
  }
  context.lineWidth = 1;
}

/**
 * Bars below the series, and behind it a shade of the same strength.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Float32Array} weights
 * @param {number[]} places the steps of the weights
 * @param {Frame} frame
 * @param {Inks} inks
 */
export function drawWeights(context, timeline, weights, places, frame, inks) {
  const { x, each } = scales(timeline, frame);
  const { left, top, bottom, floor } = frame;
  const most = weights.reduce((all, weight) => Math.max(all, Math.abs(weight)), 1e-12);
  const wide = Math.max(each * 0.8, 1);
  context.fillStyle = inks.accent;
  weights.forEach((weight, at) => {
    const share = Math.abs(weight) / most;
    if (places[at] === undefined || !(share > 0)) return;
    context.globalAlpha = 0.22 * share;
    context.fillRect(x(places[at]) - each / 2, top, each, bottom - top);
    context.globalAlpha = 1;
    const high = Math.max(share * (floor - bottom - 10), 0.5);
    context.fillRect(x(places[at]) - wide / 2, floor - high, wide, high);
  });
  context.globalAlpha = 1;
  context.font = FONT;
  context.fillStyle = inks.soft;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText(written(most), left - 8, bottom + 10);
  context.fillText("weight", left - 8, (bottom + 10 + floor) / 2);
  context.fillText("0", left - 8, floor - 4);
}

/**
 * The chosen step: a line down to the bars, and a dot on its value.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {string} side
 * @param {number} item
 * @param {Frame} frame
 * @param {Inks} inks
 */
export function drawStep(context, timeline, side, item, frame, inks) {
  const { x, y } = scales(timeline, frame);
  const place = timeline.places.get(side)?.[item];
  const value = timeline.series.find(({ name }) => name === side)?.side.values?.[item];
  if (place === undefined) return;
  context.setLineDash([4, 4]);
  context.strokeStyle = inks.soft;
  stroke(context, x(place), frame.top, x(place), frame.floor);
  context.setLineDash([]);
  if (value === undefined || value === null) return;
  context.beginPath();
  context.arc(x(place), y(value), 5, 0, 2 * Math.PI);
  context.fillStyle = inks.accent;
  context.strokeStyle = inks.paper;
  context.lineWidth = 2;
  context.fill();
  context.stroke();
  context.lineWidth = 1;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {number} right
 * @param {number} down
 */
function stroke(context, x, y, right, down) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(right, down);
  context.stroke();
}

/** @param {string} name */
function cut(name) {
  return visible(name, 16);
}

/**
 * A distance between labels that fits months: 1, 2, 3, 6, or whole years.
 *
 * @param {number} least
 */
function roundStep(least) {
  return [1, 2, 3, 6].find((step) => step >= least) ?? Math.ceil(least / 12) * 12;
}
