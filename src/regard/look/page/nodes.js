/**
 * Nodes of a graph on a canvas: a class has a colour, and from the ninth class on another shape; a name is written where
 * there is room.
 *
 * @typedef {[x: number, y: number]} Point
 */

import { headColour } from "./palette.js";

const COLOURS = 8;

/** The classes of nodes in order, each once; the label of a node without a class is empty. */
export class Classes {
  /** @param {string[] | undefined} labels of the nodes */
  constructor(labels) {
    this.labels = labels ?? [];
    this.names = [...new Set(this.labels)].filter(Boolean).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  }

  /**
   * @param {number} node
   * @returns {number} -1 without a class
   */
  of(node) {
    return this.names.indexOf(this.labels[node]);
  }

  /** @param {string} name */
  count(name) {
    return this.labels.filter((label) => label === name).length;
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Point} place
 * @param {number} radius
 * @param {number} number of the class, or -1
 * @param {{paper: string, line: string}} inks
 */
export function drawNode(context, [x, y], radius, number, { paper, line }) {
  context.beginPath();
  outline(context, x, y, radius, Math.floor(Math.max(number, 0) / COLOURS) % 3);
  context.fillStyle = number < 0 ? paper : headColour(number);
  context.strokeStyle = line;
  context.fill();
  context.stroke();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 * @param {number} shape circle, square or diamond
 */
function outline(context, x, y, radius, shape) {
  if (shape === 0) context.arc(x, y, radius, 0, 2 * Math.PI);
  else if (shape === 1) context.rect(x - 0.9 * radius, y - 0.9 * radius, 1.8 * radius, 1.8 * radius);
  else {
    context.moveTo(x, y - 1.2 * radius);
    for (const [right, down] of [[1.2, 0], [0, 1.2], [-1.2, 0]]) context.lineTo(x + right * radius, y + down * radius);
    context.closePath();
  }
}

/** Names that do not cover each other, nor a node. */
export class Names {
  /**
   * @param {Point[]} places of all nodes
   * @param {number} radius
   * @param {number} width of the picture
   */
  constructor(places, radius, width) {
    this.width = width;
    this.taken = places.map(([x, y]) => ({ left: x - radius, right: x + radius, top: y - radius, bottom: y + radius }));
  }

  /**
   * Writes a name at the right of its node or at the left, where nothing else is.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {string} name
   * @param {Point} place
   * @param {number} away
   * @param {boolean} must whether it is written in any case
   * @param {{paper: string, ink: string}} inks
   */
  write(context, name, [x, y], away, must, { paper, ink }) {
    const wide = context.measureText(name).width;
    const boxes = [x + away, x - away - wide].map((left) => ({ left, right: left + wide, top: y - 8, bottom: y + 8 }));
    const inside = boxes.filter(({ left, right }) => left >= 0 && right <= this.width);
    const free = inside.find((box) => !this.taken.some((other) => overlap(box, other)));
    const box = free ?? (must ? (inside[0] ?? boxes[0]) : null);
    if (!box) return;
    this.taken.push(box);
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.lineWidth = 3;
    context.strokeStyle = paper;
    context.strokeText(name, box.left, y);
    context.fillStyle = ink;
    context.fillText(name, box.left, y);
  }
}

/**
 * @typedef {{left: number, right: number, top: number, bottom: number}} Edges
 * @param {Edges} one
 * @param {Edges} other
 */
function overlap(one, other) {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}
