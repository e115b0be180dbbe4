/**
 * The two columns of names that lines run between, and one of them isolated: its own lines, and what share each head
 * has.
 *
 * @typedef {{column: "query" | "key", index: number}} Token
 * @typedef {import("./strands.js").Space} Space
 * @typedef {{paper: string, ink: string, soft: string, accent: string}} Inks
 */

import { headColour } from "./palette.js";
import { shiftOf, strand } from "./strands.js";
import { visible } from "./tokens.js";

const FONT = "13px system-ui, sans-serif";
const SMALL = "11px system-ui, sans-serif";
const GAP = 10;
const CHIP = 20;
const LONGEST = 22;
const FAINTEST = 0.01;
const WORTH_A_NUMBER = 0.05;

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
  others.forEach((name, other) => {
    const strengths = heads.map(({ weights }) => weights[other] / most);
    strengths.forEach((strength, at) => {
      if (!(strength >= FAINTEST)) return;
      drawn += 1;
      context.beginPath();
      context.strokeStyle = headColour(heads[at].number, 0.15 + 0.85 * strength);
      context.lineWidth = 0.75 + 2.25 * strength;
      strand(
        context,
        space,
        forward ? token.index : other,
        forward ? other : token.index,
        shiftOf(at, heads.length, space.row),
      );
      context.stroke();
    });
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
    const weight = strengths.reduce((largest, strength) => Math.max(largest, strength * most), 0);
    if (weight < WORTH_A_NUMBER) return;
    context.font = SMALL;
    context.fillStyle = inks.soft;
    context.textBaseline = "middle";
    context.textAlign = forward ? "left" : "right";
    context.fillText(weight.toFixed(2), forward ? space.right + width + GAP : space.left - width - GAP, middle);
  });
  return drawn;
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
