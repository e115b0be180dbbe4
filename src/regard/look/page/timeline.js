/** The series of a record on one axis of time: the past, a forecast, and what else has values. */

/** @typedef {import("./record.js").Side} Side */

const NAMES = /** @type {{[name: string]: string}} */ ({ source: "past", target: "forecast" });

export class Timeline {
  /** @param {{[name: string]: Side}} sides of a record */
  constructor(sides) {
    this.series = Object.entries(sides)
      .filter(([, { kind, values }]) => kind === "steps" && values)
      .sort(([a], [b]) => rank(a) - rank(b))
      .map(([name, side]) => ({ name, label: NAMES[name] ?? name, side, ahead: name === "target" || !!side.bands }));
    /** @type {string[]} */
    this.steps = [];
    /** @type {Map<string, number[]>} for each side, the step of each item; equal names are the same step */
    this.places = new Map();
    /** @type {Map<string, number>} */
    const known = new Map();
    for (const { name, side } of this.series) {
      const once = new Set(side.items).size === side.items.length;
      const places = side.items.map((item) => (once ? known.get(item) : undefined) ?? this.steps.push(item) - 1);
      side.items.forEach((item, at) => known.set(item, places[at]));
      this.places.set(name, places);
    }
  }

  /** The smallest and largest number, intervals included. */
  extent() {
    const numbers = this.series
      .flatMap(({ side }) => [side.values ?? [], ...(side.bands ?? []).flatMap(([, lows, highs]) => [lows, highs])])
      .flat()
      .filter((value) => value !== null);
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    return low < high ? { low, high } : { low: (low || 0) - 1, high: (high || 0) + 1 };
  }

  /**
   * The last number of the past and its step, from which the line of a forecast begins.
   *
   * @param {string} name
   * @returns {{place: number, value: number} | undefined}
   */
  joint(name) {
    const [first] = this.places.get(name) ?? [];
    const past = this.series.find((each) => each.name === "source");
    if (!past || !this.series.some((each) => each.name === name && each.ahead)) return undefined;
    const places = this.places.get("source") ?? [];
    return (past.side.values ?? [])
      .map((value, at) => ({ place: places[at], value }))
      .filter((each) => each.place < first && each.value !== null)
      .at(-1);
  }

  /**
   * The item of a side at a step, or the nearest.
   *
   * @param {string} side
   * @param {number} step
   * @returns {number} -1 if the side has no values
   */
  item(side, step) {
    const places = this.places.get(side) ?? [];
    const away = (/** @type {number} */ at) => Math.abs(places[at] - step);
    return places.reduce((best, _, at) => (best < 0 || away(at) < away(best) ? at : best), -1);
  }
}

/**
 * Round numbers inside of a range.
 *
 * @param {number} low
 * @param {number} high
 * @param {number} most how many at most
 */
export function ticks(low, high, most) {
  const rough = (high - low) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5].find((each) => each * power >= rough) ?? 10) * power;
  const first = Math.ceil(low / step);
  const count = Math.floor(high / step) - first + 1;
  const digits = Math.max(-Math.floor(Math.log10(step)), 0);
  return Array.from({ length: count }, (_, at) => (first + at) * step).map((value) => ({
    value,
    label: value.toFixed(Math.min(digits, 8)).replace("-", "−"),
  }));
}

/** @param {string} name */
function rank(name) {
  return name === "source" ? 0 : name === "target" ? 2 : 1;
}
