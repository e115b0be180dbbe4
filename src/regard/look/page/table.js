/** The numbers of a picture as a table, for screen readers. */

import { element } from "./elements.js";
import { largest } from "./ranking.js";
import { visible, written } from "./tokens.js";

const MOST_CELLS = 600;
const LONGEST_ROW = 20;

/**
 * The whole matrix if it is small; otherwise the largest numbers of the chosen row.
 *
 * @param {import("./matrix.js").Matrix} matrix
 * @param {{rows: string[], columns: string[], caption: string, row: number, write?: (value: number) => string}} about
 */
export function spoken(matrix, { rows, columns, caption, row, write = written }) {
  return matrix.values.length <= MOST_CELLS
    ? whole(matrix, rows, columns, caption, write)
    : one(matrix, rows, columns, caption, Math.max(row, 0));
}

/**
 * @param {import("./matrix.js").Matrix} matrix
 * @param {string[]} rows
 * @param {string[]} columns
 * @param {string} caption
 * @param {(value: number) => string} write
 */
function whole(matrix, rows, columns, caption, write) {
  return element(
    "table",
    { class: "spoken" },
    element("caption", {}, caption),
    element("tr", {}, element("td"), ...columns.map((name) => element("th", { scope: "col" }, visible(name)))),
    ...rows.map((name, at) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, visible(name)),
        ...Array.from(matrix.row(at), (value) => element("td", {}, write(value))),
      ),
    ),
  );
}

/**
 * @param {import("./matrix.js").Matrix} matrix
 * @param {string[]} rows
 * @param {string[]} columns
 * @param {string} caption
 * @param {number} row
 */
function one(matrix, rows, columns, caption, row) {
  return element(
    "table",
    { class: "spoken" },
    element("caption", {}, `${caption}: the largest weights of item ${row}, ${visible(rows[row])}`),
    ...largest(matrix.row(row), columns, LONGEST_ROW).map(({ name, value, index }) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, `${visible(name)}, item ${index}`),
        element("td", {}, written(value)),
      ),
    ),
  );
}
