/**
 * The two columns of names that lines run between, and one name isolated: its own lines, and the share of each
 * head.
 *
 * @typedef {{column: "query" | "key", index: number}} Token
 * @typedef {import("./strands.js").Space} Space
 * @typedef {{paper: string, ink: string, soft: string, accent: string}} Inks
 */

import { headColour, headLine } from "./palette.js";
import { shiftOf, strand, strandPoint } from "./strands.js";
import { visible } from "./tokens.js";

const FONT = "13px system-ui, sans-serif";
const SMALL = "11px system-ui, sans-serif";
const GAP = 10;
const CHIP = 20;
const LONGEST = 22;
const FAINTEST = 0.01;
const WORTH_A_NUMBER = 0.05;
const WORTH_A_NAME = 0.3; // lines of at least this strength show the number of their head

/**
 * @param {CanvasRenderingContext2D} context
 * @param {"query" | "key"} column
 * @param {string[]} names
 * @param {Token | null} isolated
 * @param {Space} space
 * @param {Inks} inks
 */
export function drawNames(context, column, names, isolated, { top, bottom, left, right, row, y }, inks) {
  const x = column === "query" ? left - GAP : right + GAP;
  context.textAlign = column === "query" ? "right" : "left";
  context.textBaseline = "middle";
  names.forEach((name, at) => {
    const middle = y(at);
    if (middle < top - row || middle > bottom + row) return;
    const own = isolated?.column === column && isolated.index === at;
    context.font = own ? `600 ${FONT}` : FONT;
    context.fillStyle = own ? inks.accent : inks.ink;
    context.fillText(visible(name, LONGEST), x, middle);
  });
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Token} token
 * @param {{number: number, weights: Float32Array}[]} heads its weights with each of `others`
 * @param {string[]} others the names in the other column
 * @param {Space} space
 * @param {Inks} inks
 * @returns {number} how many lines it has
 */
export function drawIsolated(context, token, heads, others, space, inks) {
  const forward = token.column === "query";
  const most = heads.reduce(
    (all, { weights }) => weights.reduce((largest, weight) => Math.max(largest, weight), all),
    1e-12,
  );
  let drawn = 0;
  /** @type {{x: number, y: number, number: number}[]} */
  const named = [];
  others.forEach((name, other) => {
    const strengths = heads.map(({ weights }) => weights[other] / most);
    strengths.forEach((strength, at) => {
      if (!(strength >= FAINTEST)) return;
      drawn += 1;
      const { number } = heads[at];
      const [from, to] = forward ? [token.index, other] : [other, token.index];
      const shift = shiftOf(at, heads.length, space.row);
      context.beginPath();
      context.setLineDash(headLine(number).dashes);
      context.strokeStyle = headColour(number, 0.15 + 0.85 * strength);
      context.lineWidth = 0.75 + 2.25 * strength;
      strand(context, space, from, to, shift);
      context.stroke();
      const along = 0.35 + (0.3 * (at + 0.5)) / heads.length;
      if (heads.length > 1 && strength >= WORTH_A_NAME)
        named.push({ number, ...strandPoint(space, from, to, shift, along) });
    });
    context.setLineDash([]);
    const middle = space.y(other);
    if (middle < space.top - space.row || middle > space.bottom + space.row) return;
    context.font = FONT;
    const width = context.measureText(visible(name, LONGEST)).width + 2 * GAP - 8;
    drawShares(
      context,
      forward ? space.right + 4 : space.left - 4 - width,
      middle,
      width,
      heads.map(({ number }) => number),
      strengths,
    );
    const strongest = strengths.reduce((best, strength, at) => (strength > strengths[best] ? at : best), 0);
    const weight = strengths[strongest] * most;
    if (!(weight >= WORTH_A_NUMBER)) return;
    context.font = SMALL;
    context.fillStyle = inks.soft;
    context.textBaseline = "middle";
    context.textAlign = forward ? "left" : "right";
    const [value, { number }] = [weight.toFixed(2), heads[strongest]];
    const room = (forward ? space.width - space.right : space.left) - width - GAP;
    const whole = `${value} head ${number}`;
    const label = heads.length === 1 ? value : context.measureText(whole).width <= room ? whole : `${value} h${number}`;
    context.fillText(label, forward ? space.right + width + GAP : space.left - width - GAP, middle);
  });
  for (const each of named) drawHead(context, each, inks.paper);
  return drawn;
}

/**
 * The number of a line's head, on the line.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {{x: number, y: number, number: number}} place
 * @param {string} paper
 */
function drawHead(context, { x, y, number }, paper) {
  context.font = `600 ${SMALL}`;
  const half = context.measureText(String(number)).width / 2 + 2;
  context.fillStyle = paper;
  context.fillRect(x - half, y - 6, 2 * half, 12);
  context.fillStyle = headColour(number);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(String(number), x, y);
}

/**
 * The share of each head, as a piece of a name's background.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {number} left
 * @param {number} middle
 * @param {number} width
 * @param {number[]} heads
 * @param {number[]} strengths
 */
function drawShares(context, left, middle, width, heads, strengths) {
  const piece = width / heads.length;
  heads.forEach((head, at) => {
    if (!(strengths[at] >= FAINTEST)) return;
    context.fillStyle = headColour(head, 0.6 * strengths[at]);
    context.fillRect(left + at * piece, middle - CHIP / 2, piece, CHIP);
  });
}
