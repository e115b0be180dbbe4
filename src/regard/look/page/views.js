/**
 * The views, in the order of their tabs. A view is shown only where a record has what it draws.
 *
 * @typedef {{store: import("./store.js").Store, announce: (text: string) => void,
 *   scales: import("./scales.js").Scales}} Page
 * @typedef {import("./record.js").Record} Record
 *
 * @typedef {object} View
 * @property {string} name in the address
 * @property {string} label
 * @property {(records: Record[]) => string} [labelFor] the label where it depends on what there is
 * @property {string} about one sentence
 * @property {"one" | "mean" | "many" | "none"} head how many heads can be chosen at a time: "mean" is one, or their mean
 * @property {(records: Record[]) => string} [aboutFor] the sentence where it depends on what there is
 * @property {(map: import("./record.js").AttentionMap) => boolean} [prefers] the maps to open it with
 * @property {boolean} [layerless] whether it shows all layers, or none
 * @property {(record: Record) => import("./record.js").Group[]} groups the maps it can show
 * @property {(record: Record) => boolean} available
 * @property {(host: HTMLElement, record: Record, page: Page) => Shown} create
 *
 * @typedef {object} Shown
 * @property {(state: import("./store.js").State) => Promise<void>} update
 * @property {() => void} destroy
 */

import { alignment } from "./alignment.js";
import { beam } from "./beam.js";
import { contributions } from "./contributions.js";
import { glance } from "./glance.js";
import { graph } from "./graph.js";
import { lines } from "./lines.js";
import { patches } from "./patches.js";
import { rollout } from "./rollout.js";
import { saliency } from "./saliency.js";
import { series } from "./series.js";
import { tendencies } from "./tendencies.js";

/** @type {View[]} */
export const VIEWS = [
  patches,
  graph,
  series,
  alignment,
  lines,
  glance,
  contributions,
  tendencies,
  beam,
  rollout,
  saliency,
];
