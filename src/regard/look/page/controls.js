/** Which map, layer and head: rows of buttons, and the keys that do the same. */

import { chosen, single } from "./chosen.js";
import { choice, element } from "./elements.js";
import { headColour, headLine } from "./palette.js";

/**
 * @typedef {import("./views.js").View} View
 * @typedef {import("./record.js").Record} Record
 * @typedef {import("./store.js").Store} Store
 */

export class Controls {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.structure = "";
    this.host = element("div", { class: "controls" });
  }

  /**
   * @param {View} view
   * @param {Record[]} records
   */
  show(view, records) {
    const { state } = this.store;
    const groups = offered(view, records);
    if (!groups.length) {
      this.structure = "";
      this.host.replaceChildren();
      return;
    }
    const what = chosen(groups, state, view.prefers);
    const structure = JSON.stringify([
      view.name,
      groups.map(({ id }) => id),
      what.group.id,
      what.group.layers(),
      what.map.heads,
      document.documentElement.dataset.theme,
    ]);
    if (structure !== this.structure) {
      this.structure = structure;
      this.host.replaceChildren(this.maps(groups, what), this.layers(view, what), this.heads(view, what));
    }
    const shown =
      view.head === "many"
        ? [...(what.heads.length === what.map.heads.length ? ["all"] : []), ...what.heads.map(String)]
        : [String(view.head === "one" ? single(what) : what.head)];
    this.press("layer", [String(what.layer)]);
    this.press("head", shown);
  }

  /**
   * @param {string} kind
   * @param {string[]} values
   */
  press(kind, values) {
    for (const button of this.host.querySelectorAll(`[data-kind="${kind}"]`)) {
      button.setAttribute("aria-pressed", String(values.includes(button.getAttribute("data-value") ?? "")));
    }
  }

  /**
   * @param {import("./record.js").Group[]} groups
   * @param {import("./chosen.js").Chosen} what
   */
  maps(groups, what) {
    const select = element(
      "select",
      { "aria-label": "map", onchange: () => this.store.set({ map: select.value, query: -1, key: -1 }) },
      ...groups.map(({ id, label }) => element("option", { value: id, selected: id === what.group.id }, label)),
    );
    return groups.length > 1 ? element("label", {}, select) : element("span", { class: "only" }, groups[0].label);
  }

  /**
   * @param {View} view
   * @param {import("./chosen.js").Chosen} what
   */
  layers(view, { group }) {
    if (view.layerless || group.maps.length < 2) return "";
    return element(
      "div",
      { class: "choices", role: "group", "aria-label": "layer" },
      element("span", { class: "what" }, "Layer"),
      ...group.layers().map((name, at) =>
        choice(name, false, () => this.store.set({ layer: at }), {
          "data-kind": "layer",
          "data-value": at,
          "aria-label": `layer ${name}`,
        }),
      ),
    );
  }

  /**
   * @param {View} view
   * @param {import("./chosen.js").Chosen} what
   */
  heads(view, { map }) {
    if (view.head === "none" || map.heads.length < 2) return "";
    const whole = wholes(view);
    const choose = (/** @type {string} */ value) =>
      this.store.set(
        view.head === "many" ? { heads: toggled(this.store.state.heads, value, map.heads) } : { head: value },
      );
    return element(
      "div",
      { class: "choices", role: "group", "aria-label": "head" },
      element("span", { class: "what" }, "Head"),
      ...[...whole, ...map.heads.map(String)].map((value) => {
        const button = choice(value, false, () => choose(value), {
          "data-kind": "head",
          "data-value": value,
          "aria-label": whole.includes(value) ? `${value} heads` : `head ${value}`,
        });
        if (view.head === "many" && value !== "all") {
          button.style.setProperty("--head", headColour(Number(value)));
          button.style.setProperty("--head-line", headLine(Number(value)).name);
        }
        return button;
      }),
    );
  }

  /**
   * The next layer or head, by a key.
   *
   * @param {View} view
   * @param {Record[]} records
   * @param {string} key
   * @returns {boolean} whether the key meant anything
   */
  key(view, records, key) {
    const groups = offered(view, records);
    if (!groups.length || !["[", "]", ",", "."].includes(key)) return false;
    const what = chosen(groups, this.store.state, view.prefers);
    const by = key === "]" || key === "." ? 1 : -1;
    if (key === "[" || key === "]") {
      this.store.set({ layer: Math.min(Math.max(what.layer + by, 0), what.group.maps.length - 1) });
    } else if (view.head !== "none") {
      const order = [...wholes(view), ...what.map.heads.map(String)];
      const many = view.head === "many";
      const held = many ? (what.heads.length === 1 ? what.heads[0] : "all") : view.head === "one" ? single(what) : what.head;
      const next = order[(order.indexOf(String(held)) + by + order.length) % order.length];
      this.store.set(many ? { heads: next } : { head: next });
    }
    return true;
  }
}

/**
 * The choice that stands for all heads of a map.
 *
 * @param {View} view
 */
function wholes(view) {
  return { many: ["all"], mean: ["mean"], one: [], none: [] }[view.head];
}

/**
 * The kinds of map that a view can show of any of the records, each once.
 *
 * @param {View} view
 * @param {Record[]} records
 */
function offered(view, records) {
  const all = records.flatMap((record) => view.groups(record));
  return all.filter((group, at) => all.findIndex(({ id }) => id === group.id) === at);
}

/**
 * @param {string} heads
 * @param {string} value
 * @param {number[]} all
 */
function toggled(heads, value, all) {
  if (value === "all") return "all";
  const number = Number(value);
  const before = heads === "all" ? [] : heads.split(",").map(Number);
  const after = before.includes(number)
    ? before.filter((each) => each !== number)
    : [...before, number].sort((a, b) => a - b);
  return after.length === 0 || after.length === all.length ? "all" : after.join(",");
}
