/** The visible part of a grid of cells, and its scale: in CSS pixels, from the corner of the area with the cells. */

const LARGEST_FITTED = 80;
const LARGEST = 80;
const SMALL = 10;
const OBLONG = { mostly: 1.4, many: 20 }; // how oblong cells may be: mostly, and where one side has very many more

export class Viewport {
  constructor() {
    this.rows = 0;
    this.columns = 0;
    this.width = 1;
    this.height = 1;
    this.zoom = 1;
    this.x = 0;
    this.y = 0;
  }

  /**
   * @param {number} rows
   * @param {number} columns
   */
  hold(rows, columns) {
    if (rows === this.rows && columns === this.columns) return;
    this.rows = rows;
    this.columns = columns;
    this.reset();
  }

  /**
   * @param {number} width
   * @param {number} height
   */
  resize(width, height) {
    this.width = Math.max(width, 1);
    this.height = Math.max(height, 1);
    this.pan(0, 0);
  }

  reset() {
    this.zoom = 1;
    this.x = 0;
    this.y = 0;
  }

  /** Cell sizes at which everything is visible: square if possible, oblong if one side is much longer. */
  fitted() {
    const width = Math.min(this.width / Math.max(this.columns, 1), LARGEST_FITTED);
    const height = Math.min(this.height / Math.max(this.rows, 1), LARGEST_FITTED);
    const alike = Math.max(this.rows, this.columns) <= 3 * Math.min(this.rows, this.columns);
    const most = alike || Math.min(width, height) >= SMALL ? OBLONG.mostly : OBLONG.many;
    return { width: Math.min(width, height * most), height: Math.min(height, width * most) };
  }

  get cellWidth() {
    return Math.min(this.fitted().width * this.zoom, LARGEST);
  }

  get cellHeight() {
    return Math.min(this.fitted().height * this.zoom, LARGEST);
  }

  /** How much of the area cells cover. */
  get coveredWidth() {
    return Math.min(this.columns * this.cellWidth, this.width);
  }

  get coveredHeight() {
    return Math.min(this.rows * this.cellHeight, this.height);
  }

  /**
   * Zooms, the point (x, y) staying where it is.
   *
   * @param {number} factor
   * @param {number} x
   * @param {number} y
   */
  zoomAt(factor, x, y) {
    const across = (this.x + x) / this.cellWidth;
    const down = (this.y + y) / this.cellHeight;
    const { width, height } = this.fitted();
    this.zoom = Math.min(Math.max(this.zoom * factor, 1), LARGEST / Math.min(width, height));
    this.x = across * this.cellWidth - x;
    this.y = down * this.cellHeight - y;
    this.pan(0, 0);
  }

  /**
   * @param {number} right
   * @param {number} down
   * @returns {boolean} whether anything moved
   */
  pan(right, down) {
    const { x, y } = this;
    this.x = Math.min(Math.max(x + right, 0), Math.max(this.columns * this.cellWidth - this.width, 0));
    this.y = Math.min(Math.max(y + down, 0), Math.max(this.rows * this.cellHeight - this.height, 0));
    return this.x !== x || this.y !== y;
  }

  /**
   * Moves as little as needed for a cell to be seen.
   *
   * @param {number} row
   * @param {number} column
   * @returns {boolean} whether anything moved
   */
  reveal(row, column) {
    const { cellWidth, cellHeight, x, y } = this;
    if (column >= 0) this.x = Math.max(Math.min(this.x, column * cellWidth), (column + 1) * cellWidth - this.width);
    if (row >= 0) this.y = Math.max(Math.min(this.y, row * cellHeight), (row + 1) * cellHeight - this.height);
    this.pan(0, 0);
    return this.x !== x || this.y !== y;
  }

  /**
   * @param {number} x
   * @param {number} y
   * @returns {{row: number, column: number} | null}
   */
  cellAt(x, y) {
    if (x < 0 || y < 0 || x >= this.coveredWidth || y >= this.coveredHeight) return null;
    const row = Math.floor((this.y + y) / this.cellHeight);
    const column = Math.floor((this.x + x) / this.cellWidth);
    return row < this.rows && column < this.columns ? { row, column } : null;
  }

  /** The cells that are visible, at least in part. */
  seen() {
    return {
      firstRow: Math.floor(this.y / this.cellHeight),
      lastRow: Math.min(Math.ceil((this.y + this.height) / this.cellHeight), this.rows) - 1,
      firstColumn: Math.floor(this.x / this.cellWidth),
      lastColumn: Math.min(Math.ceil((this.x + this.width) / this.cellWidth), this.columns) - 1,
    };
  }
}
