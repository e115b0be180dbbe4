/** Heads as points in the plane: those that look alike stand near each other. */

import { choice, element, shape } from "./elements.js";
import { extent } from "./matrix.js";
import { css, Scale } from "./palette.js";
import { plane } from "./scaling.js";

const SIZE = 360;
const MARGIN = 26;
const FEW = 64; // up to this many points are all named; with more, only the one pointed at

/**
 * @typedef {{at: number, label: string, layer: number, kind: string}} Point a head, by its place among the statistics
 * @typedef {{open: (at: number) => void, mark: (at: number, on: boolean) => void}} Events
 */

/**
 * Draws the heads between one pair of sides and offers the other pairs: heads of different sides cannot be compared.
 *
 * @param {HTMLElement} host
 * @param {Point[]} points
 * @param {(number | null)[][]} distances
 * @param {Events} events
 * @param {string} [kind]
 */
export function likeness(host, points, distances, events, kind = points[0].kind) {
  const kinds = [...new Set(points.map((point) => point.kind))];
  const shown = points.filter((point) => point.kind === kind);
  const places = plane(shown.map(({ at }) => shown.map((other) => distances[at][other.at] ?? 0)));
  const choices = kinds.map((each) =>
    choice(each, each === kind, () => likeness(host, points, distances, events, each)),
  );
  host.replaceChildren(
    element(
      "figcaption",
      {},
      element("strong", {}, "Heads alike"),
      " stand near each other, named by layer and head; the deeper the layer, the stronger the colour.",
    ),
    element("div", { class: "choices" }, ...(kinds.length > 1 ? choices : [])),
    drawing(shown, places, events),
  );
  host.dataset.points = JSON.stringify(places);
}

/**
 * @param {Point[]} points
 * @param {[number, number][]} places
 * @param {Events} events
 */
function drawing(points, places, { open, mark }) {
  const [across, along] = [0, 1].map((axis) => extent(places.map((place) => place[axis])));
  const reach = Math.max(across.largest - across.smallest, along.largest - along.smallest, 1e-12) / 2;
  const inside = (/** @type {number} */ value, /** @type {{smallest: number, largest: number}} */ span) =>
    SIZE / 2 + ((value - (span.smallest + span.largest) / 2) / reach) * (SIZE / 2 - MARGIN);
  const scale = new Scale(0, 1);
  const deepest = Math.max(...points.map(({ layer }) => layer), 1);
  const dots = points.map(({ at, label, layer }, place) =>
    shape(
      "g",
      {
        class: "dot",
        "data-at": at,
        transform: `translate(${inside(places[place][0], across)} ${SIZE - inside(places[place][1], along)})`,
        onclick: () => open(at),
        onpointerenter: () => mark(at, true),
        onpointerleave: () => mark(at, false),
      },
      shape("circle", { r: 6, fill: css(scale.colour(0.25 + (0.75 * layer) / deepest)) }),
      shape("text", { x: 9, y: 4 }, label),
    ),
  );
  const crowded = points.length > FEW ? "crowded" : "";
  const label = "map of similar heads; the table lists the same heads";
  return shape("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: crowded, role: "img", "aria-label": label }, ...dots);
}
