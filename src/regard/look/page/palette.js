/**
 * Colours. Ramps are drawn through a few stops in OKLab, a space in which equal steps look equal; lightness only ever
 * rises or only ever falls along them, and hues keep to the blue–yellow axis, so they read the same without red or
 * green, or in grey.
 *
 * @typedef {[lightness: number, chroma: number, hue: number]} Stop
 * @typedef {[red: number, green: number, blue: number]} Colour
 */

import { extent } from "./matrix.js";

/** From 0 (nearly the background) to the largest. @type {{light: Stop[], dark: Stop[]}} */
const SEQUENTIAL = {
  light: [
    [0.975, 0.008, 100],
    [0.92, 0.055, 130],
    [0.8, 0.085, 185],
    [0.63, 0.105, 230],
    [0.45, 0.125, 258],
    [0.27, 0.105, 272],
  ],
  dark: [
    [0.235, 0.018, 268],
    [0.36, 0.09, 268],
    [0.5, 0.115, 250],
    [0.66, 0.1, 215],
    [0.82, 0.1, 165],
    [0.96, 0.1, 105],
  ],
};

/** From the most negative (orange) to the most positive (blue). @type {{light: Stop[], dark: Stop[]}} */
const DIVERGING = {
  light: [
    [0.43, 0.125, 45],
    [0.62, 0.14, 55],
    [0.8, 0.1, 68],
    [0.975, 0.006, 90],
    [0.8, 0.07, 240],
    [0.6, 0.12, 250],
    [0.38, 0.13, 265],
  ],
  dark: [
    [0.88, 0.115, 78],
    [0.72, 0.14, 62],
    [0.48, 0.105, 52],
    [0.235, 0.012, 268],
    [0.44, 0.1, 262],
    [0.64, 0.12, 248],
    [0.88, 0.08, 225],
  ],
};

/**
 * Heads. Found by searching for eight colours of which any two stay at least 0.11 apart (in OKLab, where black and
 * white are 1 apart) for eyes that lack red, green or blue cones, too. The ninth head has the first colour again, in
 * lines of another kind. Heads are numbered wherever they are coloured. The classes of nodes have the same colours.
 *
 * @type {{light: Stop[], dark: Stop[]}}
 */
const HEADS = {
  light: [
    [0.505, 0.189, 271],
    [0.689, 0.114, 59],
    [0.746, 0.125, 198],
    [0.565, 0.18, 349],
    [0.513, 0.104, 93],
    [0.684, 0.184, 297],
    [0.379, 0.139, 14],
    [0.362, 0.158, 301],
  ],
  dark: [
    [0.623, 0.148, 267],
    [0.59, 0.123, 81],
    [0.896, 0.131, 165],
    [0.587, 0.196, 354],
    [0.731, 0.166, 117],
    [0.755, 0.108, 231],
    [0.727, 0.141, 7],
    [0.91, 0.146, 96],
  ],
};

/** The colour of NaN. @type {Colour} */
export const NOT_A_NUMBER = [200, 0, 120];

const STEPS = 256;

/** @returns {"light" | "dark"} what the page looks like now */
export function theme() {
  const asked = document.documentElement.dataset.theme;
  if (asked === "light" || asked === "dark") return asked;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** A scale from numbers to colours. */
export class Scale {
  /**
   * @param {number} smallest
   * @param {number} largest
   * @param {boolean} [signed] whether numbers below nothing mean something
   * @param {number} [over] the largest number there is, if it is beyond the scale: it has the last colour
   */
  constructor(smallest, largest, signed = smallest < 0, over = largest) {
    const reach = Math.max(Math.abs(smallest), Math.abs(largest)) || 1;
    this.low = signed ? -reach : 0;
    this.high = signed ? reach : largest || 1;
    this.over = over > this.high ? over : null;
    this.ramp = ramp(signed ? DIVERGING : SEQUENTIAL);
  }

  /** @param {Float32Array} values */
  static of(values) {
    const { smallest, largest } = extent(values);
    return new Scale(smallest, largest);
  }

  /**
   * @param {number} value
   * @returns {number} which step of the ramp; -1 for what is not a number
   */
  step(value) {
    const share = (value - this.low) / (this.high - this.low);
    return Number.isNaN(share) ? -1 : Math.round(Math.min(Math.max(share, 0), 1) * (STEPS - 1));
  }

  /**
   * @param {number} value
   * @returns {Colour}
   */
  colour(value) {
    return this.ramp[this.step(value)] ?? NOT_A_NUMBER;
  }
}

/** Ramps already computed, by their stops. @type {Map<Stop[], Colour[]>} */
const RAMPS = new Map();

/**
 * @param {{light: Stop[], dark: Stop[]}} stops
 * @returns {Colour[]}
 */
function ramp(stops) {
  const own = stops[theme()];
  const known = RAMPS.get(own) ?? computed(own);
  RAMPS.set(own, known);
  return known;
}

/**
 * @param {Stop[]} stops
 * @returns {Colour[]}
 */
function computed(stops) {
  return Array.from({ length: STEPS }, (_, step) => {
    const along = (step / (STEPS - 1)) * (stops.length - 1);
    const from = Math.min(Math.floor(along), stops.length - 2);
    const start = lab(stops[from]);
    const end = lab(stops[from + 1]);
    return rgb(start.map((value, axis) => value + (end[axis] - value) * (along - from)));
  });
}

/**
 * The colour of a head, by its number.
 *
 * @param {number} head
 * @param {number} [opacity]
 */
export function headColour(head, opacity = 1) {
  const stops = HEADS[theme()];
  return css(rgb(lab(stops[head % stops.length])), opacity);
}

/** @type {{name: string, dashes: number[]}[]} */
const LINES = [
  { name: "solid", dashes: [] },
  { name: "dashed", dashes: [7, 4] },
  { name: "dotted", dashes: [2, 3] },
];

/**
 * The dash pattern that distinguishes a head from others of its colour.
 *
 * @param {number} head
 */
export function headLine(head) {
  return LINES[Math.floor(head / HEADS.light.length) % LINES.length];
}

/**
 * @param {Colour} colour
 * @param {number} [opacity]
 */
export function css([red, green, blue], opacity = 1) {
  return `rgb(${red} ${green} ${blue} / ${opacity})`;
}

/**
 * Whether dark ink reads better on a colour than light ink (relative luminance).
 *
 * @param {Colour} colour
 */
export function isLight(colour) {
  const [red, green, blue] = colour.map((value) => (value / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.22;
}

/** The colours of the style sheet, for a canvas. */
export function inks() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const read = (/** @type {string} */ name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = {
    paper: read("--paper"),
    ink: read("--ink"),
    soft: read("--ink-soft"),
    line: read("--line"),
    dim: read("--dim"),
    accent: read("--accent"),
  };
  probe.remove();
  return colours;
}

/** @param {Stop} stop */
function lab([lightness, chroma, hue]) {
  const angle = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
}

/**
 * OKLab to sRGB (B. Ottosson, 2020): to the cone responses, cubed, to linear light, to the curve of a screen.
 *
 * @param {number[]} lab
 * @returns {Colour}
 */
function rgb([lightness, a, b]) {
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    onScreen(4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short),
    onScreen(-1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short),
    onScreen(-0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short),
  ];
}

/** @param {number} light */
function onScreen(light) {
  const value = light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055;
  return Math.round(255 * Math.min(Math.max(value, 0), 1));
}
