/** The map that a state selects in a record: two records may have different layers and heads. */

/**
 * @typedef {import("./record.js").Record} Record
 * @typedef {import("./record.js").Group} Group
 * @typedef {import("./record.js").AttentionMap} AttentionMap
 * @typedef {import("./store.js").State} State
 * @typedef {{group: Group, layer: number, map: AttentionMap, head: number | "mean", heads: number[]}} Chosen
 */

/**
 * @param {Group[]} groups those the view can show, at least one
 * @param {State} state
 * @param {(map: AttentionMap) => boolean} [prefers] which layers to begin with, where the state asks for none
 * @returns {Chosen} the nearest match to the state
 */
export function chosen(groups, state, prefers = () => true) {
  const group = groups.find(({ id }) => id === state.map) ?? groups[0];
  const preferred = group.maps.findLastIndex(prefers);
  const last = state.layer < 0 && preferred >= 0 ? preferred : group.maps.length - 1;
  const layer = state.layer < 0 ? last : Math.min(state.layer, last);
  const map = group.maps[layer];
  const number = Number(state.head);
  const head = map.heads.length === 1 ? map.heads[0] : map.heads.includes(number) ? number : "mean";
  const asked = state.heads.split(",").map(Number);
  const some = map.heads.filter((each) => asked.includes(each));
  return { group, layer, map, head, heads: some.length ? some : map.heads };
}

/**
 * One head, where a mean makes no sense: the chosen one, or otherwise the first.
 *
 * @param {Chosen} what
 */
export function single({ map, head }) {
  return head === "mean" ? map.heads[0] : head;
}

/** @param {Chosen} what */
export function caption({ group, layer, head }) {
  const place = group.maps.length > 1 ? `layer ${group.layers()[layer]}, ` : "";
  return `${group.label}, ${place}${head === "mean" ? "mean of heads" : `head ${head}`}`;
}
