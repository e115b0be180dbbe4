/** How tokens and numbers are written: a token is always shown as text, whole or visibly cut. */

/**
 * Characters that would be invisible, or turn the text around them.
 *
 * @type {Map<number, string>}
 */
const NAMED = new Map([
  [0x00ad, "‹SHY›"],
  [0x061c, "‹ALM›"],
  [0x200b, "‹ZWSP›"],
  [0x200e, "‹LRM›"],
  [0x200f, "‹RLM›"],
  [0x2028, "‹LS›"],
  [0x2029, "‹PS›"],
  [0x202a, "‹LRE›"],
  [0x202b, "‹RLE›"],
  [0x202c, "‹PDF›"],
  [0x202d, "‹LRO›"],
  [0x202e, "‹RLO›"],
  [0x2066, "‹LRI›"],
  [0x2067, "‹RLI›"],
  [0x2068, "‹FSI›"],
  [0x2069, "‹PDI›"],
  [0xfeff, "‹BOM›"],
  [0x09, "⇥"],
  [0x0a, "⏎"],
  [0x0d, "␍"],
  [0x7f, "␡"],
]);

/**
 * A token in at most `limit` characters (and an ellipsis), everything invisible made visible.
 *
 * @param {unknown} token
 * @param {number} [limit]
 */
export function visible(token, limit = 24) {
  const text = String(token ?? "");
  if (text === "") return "‹empty›";
  const characters = Array.from(text.slice(0, 2 * limit + 2));
  const shown = characters.slice(0, limit).map(visibleCharacter).join("");
  return characters.length > limit || text.length > 2 * limit + 2
    ? `${shown}…`
    : shown.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));
}

/** @param {string} character */
function visibleCharacter(character) {
  const code = /** @type {number} */ (character.codePointAt(0));
  const name = NAMED.get(code);
  if (name !== undefined) return name;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code >= 0x80 && code < 0xa0) return `‹${code.toString(16).toUpperCase()}›`;
  return code >= 0xd800 && code < 0xe000 ? "\ufffd" : character;
}

/**
 * A weight in a few digits: 0.8731, 3.2e-5, 0.
 *
 * @param {number} value
 */
export function written(value) {
  if (Number.isNaN(value)) return "not a number";
  if (value === 0) return "0";
  return Math.abs(value) >= 0.001 && Math.abs(value) < 1000
    ? value.toFixed(4).replace("-", "−")
    : value.toExponential(2).replace(/-/g, "−");
}

/**
 * A log-probability as a percentage; null means a probability of 0.
 *
 * @param {number | null | undefined} logprob
 */
export function percent(logprob) {
  const share = 100 * probability(logprob);
  if (share === 0) return "0 %";
  return share < 0.1 ? "< 0.1 %" : `${share < 10 ? share.toFixed(1) : share.toFixed(0)} %`;
}

/** @param {number | null | undefined} logprob */
export function probability(logprob) {
  return logprob === null || logprob === undefined ? 0 : Math.exp(logprob);
}
