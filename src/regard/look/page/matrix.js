/** Numbers in rows and columns, and the little arithmetic the views need. */

export class Matrix {
  /**
   * @param {Float32Array} values row-major
   * @param {number} rows
   * @param {number} columns
   */
  constructor(values, rows, columns) {
    this.values = values;
    this.rows = rows;
    this.columns = columns;
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  at(row, column) {
    return this.values[row * this.columns + column];
  }

  /** @param {number} row */
  row(row) {
    return this.values.subarray(row * this.columns, (row + 1) * this.columns);
  }

  /**
   * @param {number} first
   * @param {number} count
   * @returns {Matrix} rows first … first + count
   */
  part(first, count) {
    return new Matrix(
      this.values.subarray(first * this.columns, (first + count) * this.columns),
      count,
      this.columns,
    );
  }

  /** @param {number} column */
  column(column) {
    return Float32Array.from({ length: this.rows }, (_, row) => this.at(row, column));
  }

  /**
   * @param {[first: number, end: number]} rows
   * @param {[first: number, end: number]} columns
   * @returns {Matrix} a copy of the rows and columns from the first to before the end
   */
  block([top, bottom], [left, right]) {
    const width = right - left;
    const values = new Float32Array((bottom - top) * width);
    for (let row = top; row < bottom; row++) values.set(this.row(row).subarray(left, right), (row - top) * width);
    return new Matrix(values, bottom - top, width);
  }

  /** The smallest and largest number; NaN is ignored. */
  extent() {
    return extent(this.values);
  }

  /**
   * @param {Matrix[]} matrices of one shape, at least one
   * @returns {Matrix}
   */
  static mean(matrices) {
    const [{ rows, columns }] = matrices;
    const sum = new Float32Array(rows * columns);
    for (const { values } of matrices) for (let at = 0; at < sum.length; at++) sum[at] += values[at];
    for (let at = 0; at < sum.length; at++) sum[at] /= matrices.length;
    return new Matrix(sum, rows, columns);
  }
}

/**
 * @param {ArrayLike<number>} values
 * @returns {{smallest: number, largest: number}}
 */
export function extent(values) {
  let smallest = Infinity;
  let largest = -Infinity;
  for (let at = 0; at < values.length; at++) {
    if (values[at] < smallest) smallest = values[at];
    if (values[at] > largest) largest = values[at];
  }
  return largest === -Infinity ? { smallest: 0, largest: 0 } : { smallest, largest };
}
