/**
 * Where one item looked most: the numbers, beside the picture.
 *
 * @typedef {{name: string, value: number, index: number}} Entry
 */

import { element } from "./elements.js";
import { visible, written } from "./tokens.js";

const MOST = 9;

/**
 * @param {ArrayLike<number>} values
 * @param {string[]} names
 * @param {number} [most]
 * @returns {Entry[]} the largest first, none that is nothing
 */
export function largest(values, names, most = MOST) {
  const entries = Array.from(values, (value, index) => ({ name: names[index], value, index }));
  return entries
    .filter(({ value }) => value !== 0)
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value) || a.index - b.index)
    .slice(0, most);
}

/**
 * @param {Entry[]} entries
 * @param {{title: string, chosen?: number, total?: number, part?: boolean, first?: number}} about `total` is what the row
 *   sums to, or the `part` of it that is shown; `first` the place of the first item in its text
 */
export function ranking(entries, { title, chosen = -1, total, part = false, first = 0 }) {
  const longest = Math.max(...entries.map(({ value }) => Math.abs(value)), 1e-12);
  const rows = entries.map(({ name, value, index }) => {
    const bar = element("span", { class: value < 0 ? "bar below" : "bar" });
    bar.style.width = `${(100 * Math.abs(value)) / longest}%`;
    return element(
      "li",
      { class: index === chosen ? "chosen" : null, "data-index": index, "data-value": value },
      element("span", { class: "name" }, element("bdi", {}, visible(name, 18)), place(first + index)),
      element("span", { class: "track" }, bar),
      element("span", { class: "number" }, written(value)),
    );
  });
  const row = part ? "This part of the row" : "The whole row";
  return element(
    "section",
    { class: "ranking" },
    element("h3", {}, title),
    element("ol", {}, ...rows),
    total === undefined ? null : element("p", { class: "total" }, `${row} sums to ${written(total)}.`),
  );
}

/**
 * The place of an item, counted from 0: a word may stand in a text more than once.
 *
 * @param {number} index
 */
export function place(index) {
  return element("span", { class: "place", title: "its place in the text, counted from 0" }, index);
}

/**
 * One number with its label.
 *
 * @param {string} from
 * @param {string} to
 * @param {number} value
 */
export function reading(from, to, value) {
  return element(
    "div",
    { class: "reading", "data-value": value },
    element("p", {}, element("bdi", {}, visible(from, 40)), " → ", element("bdi", {}, visible(to, 40))),
    element("strong", {}, written(value)),
  );
}
