/**
 * Weights as they travel: base64 of little-endian numbers in row-major order, as 32-bit floats or as bytes with a
 * scale for each row, compressed or not. Queries and keys travel as 32-bit or 16-bit floats.
 *
 * @typedef {{encoding: string, weights: string, scales?: string}} Stored
 */

import { Matrix } from "./matrix.js";

/** Numbers in rows of one length, kept as small as they came. */
export class Rows {
  /**
   * @param {Float32Array | Uint8Array} values
   * @param {Float32Array | null} scales for bytes: what 255 stands for, in each row
   * @param {number} columns
   */
  constructor(values, scales, columns) {
    this.values = values;
    this.scales = scales;
    this.columns = columns;
  }

  /**
   * @param {number} first
   * @param {number} count
   * @returns {Matrix} rows first … first + count
   */
  matrix(first, count) {
    const part = this.values.subarray(first * this.columns, (first + count) * this.columns);
    const numbers = Float32Array.from(part);
    if (this.scales) {
      for (let row = 0; row < count; row++) {
        const unit = this.scales[first + row] / 255;
        for (let at = row * this.columns; at < (row + 1) * this.columns; at++) numbers[at] *= unit;
      }
    }
    return new Matrix(numbers, count, this.columns);
  }

  /**
   * The mean of several blocks of rows, without a copy of each.
   *
   * @param {number} blocks
   * @param {number} count the rows of a block
   * @returns {Matrix}
   */
  mean(blocks, count) {
    const { values, scales, columns } = this;
    const sum = new Float32Array(count * columns);
    for (let block = 0; block < blocks; block++) {
      for (let row = 0; row < count; row++) {
        const unit = (scales ? scales[block * count + row] / 255 : 1) / blocks;
        const from = (block * count + row) * columns;
        const into = row * columns;
        for (let at = 0; at < columns; at++) sum[into + at] += unit * values[from + at];
      }
    }
    return new Matrix(sum, count, columns);
  }
}

/**
 * @param {Stored} stored
 * @param {number} rows
 * @param {number} columns
 * @returns {Promise<Rows>}
 */
export async function decode(stored, rows, columns) {
  const [number, packing] = String(stored.encoding).split("+");
  if (!["f32", "u8"].includes(number) || ![undefined, "deflate"].includes(packing)) {
    throw new Error(`the encoding ${stored.encoding} is unknown; this page reads f32, u8, f32+deflate and u8+deflate`);
  }
  const packed = bytes(stored.weights);
  const raw = packing ? await inflate(packed) : packed;
  const values = number === "f32" ? new Float32Array(raw.buffer, 0, raw.byteLength >> 2) : raw;
  const scales = number === "u8" ? new Float32Array(bytes(stored.scales ?? "").buffer) : null;
  if (values.length !== rows * columns || (scales && scales.length !== rows)) {
    throw new Error(`there are ${values.length} weights where ${rows} rows of ${columns} were announced`);
  }
  return new Rows(values, scales, columns);
}

/**
 * Numbers of an encoding that is one of f32 and f16, in rows.
 *
 * @param {string} encoding
 * @param {string} base64
 * @param {number} rows
 * @param {number} columns
 * @returns {Matrix}
 */
export function floats(encoding, base64, rows, columns) {
  if (!["f32", "f16"].includes(encoding)) {
    throw new Error(`the encoding ${encoding} of queries and keys is unknown; this page reads f32 and f16`);
  }
  const { buffer } = bytes(base64);
  const values =
    encoding === "f32"
      ? new Float32Array(buffer, 0, buffer.byteLength >> 2)
      : Float32Array.from(new Uint16Array(buffer, 0, buffer.byteLength >> 1), half);
  if (values.length !== rows * columns) {
    throw new Error(`there are ${values.length} numbers where ${rows} rows of ${columns} were announced`);
  }
  return new Matrix(values, rows, columns);
}

/**
 * The number that 16 bits stand for: a sign, five bits of exponent, ten of fraction.
 *
 * @param {number} bits
 */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

/**
 * @param {string} base64
 * @returns {Uint8Array<ArrayBuffer>}
 */
function bytes(base64) {
  if ("fromBase64" in Uint8Array) return /** @type {any} */ (Uint8Array).fromBase64(base64); // in browsers since 2025
  const characters = atob(base64);
  const made = new Uint8Array(characters.length);
  for (let at = 0; at < made.length; at++) made[at] = characters.charCodeAt(at);
  return made;
}

/** @param {Uint8Array<ArrayBuffer>} packed */
async function inflate(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
