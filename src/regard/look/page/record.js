/**
 * A record: what was looked at. Written down in docs/record.md.
 *
 * @typedef {{kind: string, items: string[], text?: string, rows?: number, columns?: number, picture?: string,
 *   edges?: [number, number][]}} Side
 * @typedef {import("./numbers.js").Stored} Stored
 * @typedef {Stored & {name: string, kind: string, query: string, key: string, layer: number | null, heads: number[],
 *   shape: [number, number, number], sums: string, inputs?: string[], vectors?: Vectors}} RawMap
 * @typedef {{width: number, encoding: string, queries: string, keys: string}} Vectors
 * @typedef {{text?: string, logprobs?: (number | null)[], alternatives?: [string, number | null][][],
 *   places?: number[]}} Answer
 * @typedef {{parent: number, token: string, logprob: number | null, sum: number | null, step: number,
 *   state: string}} BeamNode
 * @typedef {{[name: string]: number | string | null}} HeadStatistics
 * @typedef {{sentences: number, heads: HeadStatistics[], similarity?: number[][] | null}} Statistics
 * @typedef {{format: string, version: number, title?: string, model?: {name?: string, kind?: string, task?: string},
 *   sides: {[name: string]: Side}, maps: RawMap[], answer?: Answer | null,
 *   saliency?: {[name: string]: RawMap} | null, beam?: {nodes: BeamNode[]} | null,
 *   statistics?: Statistics | null}} Raw
 */

import { Matrix } from "./matrix.js";
import { decode, floats } from "./numbers.js";
import { visible } from "./tokens.js";

/** The weights of one attention: heads × queries × keys. Decoded when first asked for. */
export class AttentionMap {
  /**
   * @param {RawMap} raw
   * @param {{[name: string]: Side}} sides
   */
  constructor(raw, sides) {
    this.raw = raw;
    this.name = raw.name;
    this.heads = raw.heads;
    this.queries = raw.shape[1];
    this.keys = raw.shape[2];
    this.rows = names(sides[raw.query]?.items, this.queries);
    this.columns = names(raw.inputs ?? sides[raw.key]?.items, this.keys);
    this.inputs = raw.inputs ?? null;
    this.notes = [
      raw.sums === "any" ? "The rows of this map need not sum to one; they are shown as they were used." : "",
      raw.encoding.startsWith("u8") ? "Stored as bytes: each weight is right to 1/510 of the largest in its row." : "",
    ]
      .filter(Boolean)
      .join(" ");
    /** @type {Promise<import("./numbers.js").Rows> | null} */
    this.decoded = null;
    /** @type {{queries: Matrix, keys: Matrix} | null} */
    this.compared = null;
  }

  load() {
    this.decoded ??= decode(this.raw, this.heads.length * this.queries, this.keys);
    return this.decoded;
  }

  /**
   * @param {number | "mean"} head its number, or the mean over those that are there
   * @returns {Promise<Matrix>} queries × keys
   */
  async matrix(head) {
    const rows = await this.load();
    if (head === "mean") return Matrix.mean(this.heads.map((_, at) => rows.matrix(at * this.queries, this.queries)));
    return rows.matrix(this.heads.indexOf(head) * this.queries, this.queries);
  }

  /**
   * The query of a row of a head, and all keys of that head: what was compared, if it was kept.
   *
   * @param {number} head
   * @param {number} row
   * @returns {{query: Float32Array, keys: Matrix} | null}
   */
  vectors(head, row) {
    const { vectors } = this.raw;
    if (!vectors) return null;
    const { encoding, width } = vectors;
    this.compared ??= {
      queries: floats(encoding, vectors.queries, this.heads.length * this.queries, width),
      keys: floats(encoding, vectors.keys, this.heads.length * this.keys, width),
    };
    const at = this.heads.indexOf(head);
    return {
      query: this.compared.queries.row(at * this.queries + row),
      keys: this.compared.keys.part(at * this.keys, this.keys),
    };
  }

  /**
   * What stood where row `row` looked from, if that is not the row's own name.
   *
   * @param {number} row
   */
  standing(row) {
    return this.inputs && this.queries === this.inputs.length ? this.inputs[row] : null;
  }
}

/** Maps that look from the same side at the same side: the layers of one kind of attention. */
export class Group {
  /** @param {AttentionMap[]} maps */
  constructor(maps) {
    const [{ raw }] = maps;
    this.maps = maps;
    this.kind = raw.kind;
    this.query = raw.query;
    this.key = raw.key;
    this.id = identity(raw);
    this.label = `${raw.kind}: ${visible(raw.query)} → ${visible(raw.key)}`;
  }

  /** The layers' names: their numbers where these tell them apart, else the maps' own names. */
  layers() {
    const numbers = this.maps.map((map) => map.raw.layer);
    const distinct = new Set(numbers).size === numbers.length && !numbers.includes(null);
    return this.maps.map((map, at) => (distinct ? String(numbers[at]) : map.name));
  }
}

export class Record {
  /** @param {Raw} raw */
  constructor(raw) {
    if (raw?.format !== "regard.record" || raw.version !== 1) {
      throw new Error("this is not a record of version 1, the version this page reads");
    }
    this.raw = raw;
    this.sides = raw.sides ?? {};
    this.maps = (raw.maps ?? []).map((map) => new AttentionMap(map, this.sides));
    /** @type {Map<string, AttentionMap[]>} */
    const together = new Map();
    for (const map of this.maps) together.set(identity(map.raw), [...(together.get(identity(map.raw)) ?? []), map]);
    this.groups = [...together.values()].map((maps) => new Group(maps));
    const cross = this.groups.findIndex((group) => group.kind === "cross");
    if (cross > 0) this.groups.unshift(...this.groups.splice(cross, 1));
  }

  /**
   * The map of a name, and where it stands.
   *
   * @param {string} name
   */
  find(name) {
    for (const group of this.groups) {
      const layer = group.maps.findIndex((map) => map.name === name);
      if (layer >= 0) return { group, layer, map: group.maps[layer] };
    }
    return null;
  }
}

/** @param {RawMap} raw */
function identity(raw) {
  return `${raw.kind}:${raw.query}:${raw.key}`;
}

/**
 * @param {string[] | undefined} items
 * @param {number} count
 * @returns {string[]} a name for each place, its number where it has none
 */
export function names(items, count) {
  return Array.from({ length: count }, (_, at) => items?.[at] ?? String(at));
}
