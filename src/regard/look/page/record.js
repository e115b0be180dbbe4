/**
 * A record of attention, as docs/record.md describes it.
 *
 * @typedef {{kind: string, items: string[], text?: string, rows?: number, columns?: number, picture?: string,
 *   edges?: [number, number][], labels?: string[], border?: number, values?: (number | null)[],
 *   bands?: [level: number, lows: (number | null)[], highs: (number | null)[]][]}} Side
 * @typedef {import("./numbers.js").Stored} Stored
 * @typedef {Stored & {name: string, kind: string, query: string, key: string, layer: number | null, heads: number[],
 *   shape: [number, number, number], sums: string, inputs?: string[], vectors?: Vectors, part?: string}} RawMap
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
 *   statistics?: Statistics | null, notes?: string[]}} Raw
 *
 * @typedef {[first: number, end: number]} Range items from the first to before the end
 * @typedef {{label: string, rows: Range, columns: Range}} Cut a block of a map: what looks from one text at another
 */

import { Matrix } from "./matrix.js";
import { decode, floats } from "./numbers.js";
import { visible } from "./tokens.js";

/** The weights of one attention, or a block of them: heads × queries × keys. Decoded when first asked for. */
export class AttentionMap {
  /**
   * @param {RawMap} raw
   * @param {{[name: string]: Side}} sides
   * @param {{whole: AttentionMap, cut: Cut} | null} [part] what this is a block of
   */
  constructor(raw, sides, part = null) {
    const [, queries, keys] = raw.shape;
    this.raw = raw;
    this.name = raw.name;
    /** Whether the columns are numbers, such as steps and experts, and no items of a text. */
    this.numbered = sides[raw.key]?.kind === "steps" && !sides[raw.key].values;
    this.whole = part?.whole ?? this;
    this.id = `${raw.name} ${part?.cut.label ?? ""}`;
    this.heads = raw.heads;
    /** @type {Range} */
    this.rowRange = part?.cut.rows ?? [0, queries];
    /** @type {Range} */
    this.columnRange = part?.cut.columns ?? [0, keys];
    this.queries = this.rowRange[1] - this.rowRange[0];
    this.keys = this.columnRange[1] - this.columnRange[0];
    this.inputs = raw.inputs?.length === queries ? raw.inputs : null;
    this.rows = names(sides[raw.query]?.items, queries).slice(...this.rowRange);
    this.columns = names(raw.inputs ?? sides[raw.key]?.items, keys).slice(...this.columnRange);
    this.labels = this.rows.map((name, row) => {
      const read = this.standing(row);
      return read === null ? name : `${visible(read, 8)} ▸ ${visible(name, 8)}`;
    });
    this.notes = [
      raw.part ?? "",
      raw.sums === "any" && !raw.part ? "The rows of this map need not sum to one; they are shown as they were used." : "",
      raw.encoding.startsWith("u8") ? "Stored as bytes: each weight is right to 1/510 of the largest in its row." : "",
      this.inputs ? "A row x ▸ y has the weights from x, the last token read, when y was predicted." : "",
      part ? "A part of each row: weights on the other text are left out, so the rows do not sum to one." : "",
    ]
      .filter(Boolean)
      .join(" ");
    /** @type {Promise<import("./numbers.js").Rows> | null} */
    this.decoded = null;
    /** @type {{queries: Matrix, keys: Matrix} | null} */
    this.compared = null;
  }

  load() {
    if (this.whole !== this) return this.whole.load();
    this.decoded ??= decode(this.raw, this.heads.length * this.queries, this.keys);
    return this.decoded;
  }

  /**
   * @param {number | "mean"} head its number, or the mean over those that are there
   * @returns {Promise<Matrix>} queries × keys
   */
  async matrix(head) {
    if (this.whole !== this) return (await this.whole.matrix(head)).block(this.rowRange, this.columnRange);
    const rows = await this.load();
    if (head === "mean") return rows.mean(this.heads.length, this.queries);
    return rows.matrix(this.heads.indexOf(head) * this.queries, this.queries);
  }

  /** Whether no row of any head sees an item after its own. */
  async causal() {
    if (this.whole !== this) return this.whole.causal();
    const { values } = await this.load();
    const { queries, keys } = this;
    if (queries !== keys || queries < 2) return false;
    for (let row = 0; row < this.heads.length * queries; row++)
      for (let at = row * keys + (row % queries) + 1; at < (row + 1) * keys; at++) if (values[at] !== 0) return false;
    return true;
  }

  /**
   * The keys that a row could not see. With full precision, those of weight 0: a softmax is positive everywhere else.
   * Bytes round the smallest weights to 0 too, so with bytes only the keys after the row of a causal map.
   *
   * @param {number} row
   * @param {Float32Array} weights of that row
   * @returns {Promise<boolean[]>}
   */
  async hidden(row, weights) {
    const exact = this.raw.encoding.startsWith("f32");
    const causal = await this.causal();
    const own = this.rowRange[0] + row;
    return Array.from(weights, (weight, at) => weight === 0 && (exact || (causal && this.columnRange[0] + at > own)));
  }

  /**
   * The query of a row of a head, and all keys of that head, if they were kept.
   *
   * @param {number} head
   * @param {number} row
   * @returns {{query: Float32Array, keys: Matrix} | null}
   */
  vectors(head, row) {
    if (this.whole !== this) {
      const found = this.whole.vectors(head, this.rowRange[0] + row);
      return found && { query: found.query, keys: found.keys.part(this.columnRange[0], this.keys) };
    }
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
   * The token read at a row, if it is not the row's own: in a causal map of predicted tokens, the token before it.
   *
   * @param {number} row
   */
  standing(row) {
    return this.inputs?.[this.rowRange[0] + row] ?? null;
  }

  /**
   * A row, in words.
   *
   * @param {number} row
   */
  who(row) {
    const read = this.standing(row);
    const own = visible(this.rows[row], 30);
    return read === null ? own : `${visible(read, 30)} (about to say ${own})`;
  }
}

/** Maps that look from the same side at the same side: the layers of one kind of attention. */
export class Group {
  /**
   * @param {AttentionMap[]} maps
   * @param {string} [name] what to call them, if that is not from which side they look at which
   * @param {Cut | null} [cut] the block of the maps that these are
   */
  constructor(maps, name = "", cut = null) {
    const [{ raw, numbered }] = maps;
    this.maps = maps;
    this.kind = numbered ? (raw.name.split(".").pop() ?? "") : raw.kind;
    this.query = raw.query;
    this.key = raw.key;
    this.id = cut ? `${identity(raw)}:${cut.label}` : identity(raw);
    this.label = `${this.kind}: ${name || `${visible(raw.query)} → ${visible(raw.key)}`}`;
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
    this.groups = [...together.values()].flatMap((maps) => {
      const parts = this.parts(maps);
      return [new Group(maps, parts.length ? "all" : ""), ...parts];
    });
    const cross = this.groups.findIndex((group) => group.kind === "cross");
    if (cross > 0) this.groups.unshift(...this.groups.splice(cross, 1));
  }

  /**
   * The four blocks of self-attention over a pair of texts: from each text to each text.
   *
   * @param {AttentionMap[]} maps
   * @returns {Group[]}
   */
  parts(maps) {
    const [{ raw }] = maps;
    const { border = 0, items = [] } = this.sides[raw.query] ?? {};
    if (raw.query !== raw.key || !(border > 0 && border < items.length)) return [];
    if (maps.some(({ queries, keys }) => queries !== items.length || keys !== items.length)) return [];
    /** @type {[string, Range][]} */
    const texts = [
      ["A", [0, border]],
      ["B", [border, items.length]],
    ];
    return texts.flatMap(([from, rows]) =>
      texts.map(([to, columns]) => {
        const cut = { label: `${from} → ${to}`, rows, columns };
        return new Group(
          maps.map((whole) => new AttentionMap(whole.raw, this.sides, { whole, cut })),
          cut.label,
          cut,
        );
      }),
    );
  }

  /**
   * The map of a name, and its place.
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
