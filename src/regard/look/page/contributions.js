/** One query of one head: the products of its features with those of each key, and the scores they sum to. */

import { legend } from "./cells.js";
import { caption, chosen, single } from "./chosen.js";
import { choice, element } from "./elements.js";
import { HeatMap } from "./heat_map.js";
import { Matrix } from "./matrix.js";
import { Scale, theme } from "./palette.js";
import { place } from "./ranking.js";
import { spoken } from "./table.js";
import { visible, written } from "./tokens.js";

const NOT_KEPT = "The queries and keys of this layer were not kept, to keep the record small";
const REMEDY = "Look again with --layer (or layer=…), and --head if that is still too much, to have them.";
const NOT_VISIBLE = "not visible";

/** The colour of keys that could not be seen. @type {{light: [number, number, number], dark: [number, number, number]}} */
const BLANK = { light: [226, 224, 218], dark: [52, 57, 68] };

/** @type {import("./views.js").View} */
export const contributions = {
  name: "query",
  label: "One query",
  about: "Each cell is one feature of the query times the same feature of a key; each row sums to the key's score.",
  head: "one",
  prefers: ({ raw }) => Boolean(raw.vectors),
  groups: (record) => record.groups.filter(({ maps }) => maps.some(({ raw }) => raw.vectors)),
  available: (record) => contributions.groups(record).length > 0,
  create: (host, record, page) => new Contributions(host, record, page),
};

/**
 * One comparison: a query and the keys it was compared with, products (keys × features) and scores. The products
 * of a key that the query could not see, such as one after it in a causal map, are not numbers.
 *
 * @typedef {{map: import("./record.js").AttentionMap, head: number, row: number, query: Float32Array, keys: Matrix,
 *   products: Matrix, scores: Float32Array, hidden: boolean[], caption: string}} Compared
 */

class Contributions {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.page = page;
    this.ordered = false;
    /** @type {Compared | null} */
    this.compared = null;
    /** @type {number[]} the features, in the order they are shown */
    this.features = [];
    this.asked = "";
    this.named = "";
    this.query = element("select", {
      "aria-label": "query",
      onchange: () => page.store.set({ query: Number(this.query.value) }),
    });
    this.order = choice("largest features first", false, () => {
      this.ordered = !this.ordered;
      this.order.setAttribute("aria-pressed", String(this.ordered));
      this.draw();
    });
    this.missing = element("p", { class: "hint", role: "status" });
    this.reading = element("div", { class: "details" });
    this.picture = element("div", { class: "picture" });
    this.scoreTable = element("table", { class: "scores" });
    this.table = element("div", { class: "hidden" });
    this.split = element(
      "div",
      { class: "split" },
      this.picture,
      element("aside", { class: "panel" }, this.reading, this.order, this.scoreTable),
    );
    const label = element("label", { class: "choices" }, element("span", { class: "what" }, "Query of"), this.query);
    host.append(label, this.missing, this.split, this.table);
    this.heatMap = new HeatMap(this.picture, {
      point: () => this.describe(),
      choose: ({ row, column }) => {
        this.heatMap.select(row, column);
        this.describe();
        page.announce(this.sentence(row, column));
      },
    });
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const what = chosen(contributions.groups(this.record), state, contributions.prefers);
    const head = single(what);
    const row = Math.min(Math.max(state.query, 0), what.map.queries - 1);
    this.name(what.map);
    this.query.value = String(row);
    const asked = `${what.map.id} ${head} ${row}`;
    if (asked === this.asked) return;
    this.asked = asked;
    const found = row < 0 ? null : what.map.vectors(head, row);
    this.missing.hidden = found !== null;
    this.missing.textContent = found ? "" : this.excuse(what);
    this.split.hidden = found === null;
    this.compared = null;
    if (!found) return this.table.replaceChildren();
    const weights = (await what.map.matrix(head)).row(row);
    const hidden = await what.map.hidden(row, weights);
    if (asked !== this.asked) return;
    const about = `query of ${what.map.who(row)}, ${caption({ ...what, head })}`;
    this.compared = { map: what.map, head, row, hidden, ...found, ...multiplied(found, hidden), caption: about };
    this.heatMap.describe(`products of features, ${about}`);
    this.heatMap.select(-1, -1);
    this.score(weights);
    this.draw();
  }

  /**
   * Why a layer has nothing to show, and which layers have something.
   *
   * @param {import("./chosen.js").Chosen} what
   */
  excuse({ group }) {
    const layers = group.layers().filter((_, at) => contributions.prefers?.(group.maps[at]));
    return `${NOT_KEPT}; those of layer ${layers.join(", ")} were kept. ${REMEDY}`;
  }

  /**
   * Offers the queries of a map by name; in a causal map, by the token read and the token predicted then.
   *
   * @param {import("./record.js").AttentionMap} map
   */
  name(map) {
    if (map.id === this.named) return;
    this.named = map.id;
    this.query.replaceChildren(
      ...map.rows.map((_, at) => element("option", { value: at }, `${map.rowRange[0] + at}  ${map.who(at)}`)),
    );
  }

  draw() {
    if (!this.compared) return;
    const { products, map } = this.compared;
    const { rows, columns } = products;
    const size = Array.from({ length: columns }, (_, at) =>
      products.column(at).reduce((sum, value) => sum + (Math.abs(value) || 0), 0),
    );
    this.features = size.map((_, at) => at);
    if (this.ordered) this.features.sort((a, b) => size[b] - size[a]);
    const shown = new Matrix(
      Float32Array.from({ length: rows * columns }, (_, at) =>
        products.at(Math.floor(at / columns), this.features[at % columns]),
      ),
      rows,
      columns,
    );
    const { smallest, largest } = products.extent();
    const about = { rows: map.columns, columns: this.features.map(String) };
    this.heatMap.show({ matrix: shown, ...about, scale: new Scale(smallest, largest, true), blank: BLANK[theme()] });
    const caption = `Products of features. ${this.compared.caption}`;
    this.table.replaceChildren(spoken(shown, { ...about, caption, row: 0, write: number }));
    this.describe();
  }

  /** @param {Float32Array} weights the softmax of the scores */
  score(weights) {
    const { map, scores, hidden } = /** @type {Compared} */ (this.compared);
    const most = scores.reduce((largest, score) => Math.max(largest, Math.abs(score) || 0), 1e-12);
    const rows = map.columns.map((key, at) => {
      const name = element("th", { scope: "row" }, element("bdi", {}, visible(key, 18)), place(map.columnRange[0] + at));
      if (hidden[at]) return element("tr", { class: "unseen" }, name, element("td", { colspan: 3 }, NOT_VISIBLE));
      const bar = element("span", { class: scores[at] < 0 ? "bar below" : "bar" });
      bar.style.width = `${(100 * Math.abs(scores[at])) / most}%`;
      return element(
        "tr",
        { "data-score": scores[at], "data-weight": weights[at] },
        name,
        element("td", {}, element("span", { class: "track" }, bar)),
        element("td", {}, written(scores[at])),
        element("td", {}, written(weights[at])),
      );
    });
    this.scoreTable.replaceChildren(
      element("tr", {}, element("th", {}, "key"), element("th", { colspan: 2 }, "score"), element("th", {}, "weight")),
      ...rows,
    );
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  sentence(row, column) {
    if (!this.compared || row < 0 || column < 0) return "";
    const { map, products, scores, hidden } = this.compared;
    if (hidden[row]) return `${visible(map.columns[row])}: ${NOT_VISIBLE}`;
    const [product, score] = [products.at(row, this.features[column]), scores[row]].map(written);
    return `${visible(map.columns[row])}, feature ${this.features[column]}: ${product}, score ${score}`;
  }

  describe() {
    if (!this.compared) return;
    const { map, query, keys, products, hidden } = this.compared;
    const { row, column } = this.heatMap.pointed ?? this.heatMap.selected;
    const parts = [legend(this.heatMap.cells.scaleAt(0), written)];
    if (row >= 0 && column >= 0) {
      const feature = this.features[column];
      const value = products.at(row, feature);
      parts.unshift(
        element(
          "div",
          { class: "reading", "data-value": value },
          element("p", {}, element("bdi", {}, visible(map.columns[row], 30)), `, feature ${feature}`),
          element("strong", {}, number(value)),
          !hidden[row] && element("p", { class: "note" }, `${written(query[feature])} × ${written(keys.at(row, feature))}`),
        ),
      );
    }
    this.reading.replaceChildren(...parts);
  }

  destroy() {
    this.heatMap.destroy();
  }
}

/**
 * A number, or a note that the key could not be seen.
 *
 * @param {number} value
 */
function number(value) {
  return Number.isNaN(value) ? NOT_VISIBLE : written(value);
}

/**
 * @param {{query: Float32Array, keys: Matrix}} compared
 * @param {boolean[]} hidden
 * @returns {{products: Matrix, scores: Float32Array}} feature by feature, and their sums; of hidden keys no numbers
 */
function multiplied({ query, keys }, hidden) {
  const { columns } = keys;
  const products = new Matrix(
    keys.values.map((value, at) => (hidden[Math.floor(at / columns)] ? NaN : value * query[at % columns])),
    keys.rows,
    keys.columns,
  );
  const scores = Float32Array.from({ length: keys.rows }, (_, row) =>
    products.row(row).reduce((sum, value) => sum + value, 0),
  );
  return { products, scores };
}
