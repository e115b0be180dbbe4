/** One query of one head: the products of its features with those of each key, and the scores they sum to. */

import { legend } from "./cells.js";
import { caption, chosen, single } from "./chosen.js";
import { choice, element } from "./elements.js";
import { HeatMap } from "./heat_map.js";
import { Matrix } from "./matrix.js";
import { Scale } from "./palette.js";
import { spoken } from "./table.js";
import { visible, written } from "./tokens.js";

const NOT_KEPT =
  "The queries and keys of this layer were not kept, to keep the record small. " +
  "Look again with --layer (or layer=…), and --head if that is still too much, to have them.";

/** @type {import("./views.js").View} */
export const contributions = {
  name: "query",
  label: "One query",
  about: "Each cell is one feature of the query times the same feature of a key; each row sums to the key's score.",
  head: "one",
  groups: (record) => record.groups.filter(({ maps }) => maps.some(({ raw }) => raw.vectors)),
  available: (record) => contributions.groups(record).length > 0,
  create: (host, record, page) => new Contributions(host, record, page),
};

/**
 * What is looked into: a query and the keys it was compared with, products (keys × features) and scores.
 *
 * @typedef {{map: import("./record.js").AttentionMap, head: number, row: number, query: Float32Array, keys: Matrix,
 *   products: Matrix, scores: Float32Array, caption: string}} Compared
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
    this.missing = element("p", { class: "hint", role: "status" }, NOT_KEPT);
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
      label: "products of features; arrow keys move from cell to cell",
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
    const what = chosen(contributions.groups(this.record), state);
    const head = single(what);
    const row = Math.min(Math.max(state.query, 0), what.map.queries - 1);
    this.name(what.map);
    this.query.value = String(row);
    const asked = `${what.map.name} ${head} ${row}`;
    if (asked === this.asked) return;
    this.asked = asked;
    const found = row < 0 ? null : what.map.vectors(head, row);
    this.missing.hidden = found !== null;
    this.split.hidden = found === null;
    this.compared = null;
    if (!found) return this.table.replaceChildren();
    const weights = (await what.map.matrix(head)).row(row);
    if (asked !== this.asked) return;
    this.compared = { map: what.map, head, row, ...found, ...multiplied(found), caption: caption({ ...what, head }) };
    this.heatMap.select(-1, -1);
    this.score(weights);
    this.draw();
  }

  /**
   * Offers the queries of a map by name.
   *
   * @param {import("./record.js").AttentionMap} map
   */
  name({ name, rows }) {
    if (name === this.named) return;
    this.named = name;
    this.query.replaceChildren(
      ...rows.map((item, at) => element("option", { value: at }, `${at}  ${visible(item, 30)}`)),
    );
  }

  draw() {
    if (!this.compared) return;
    const { products, map } = this.compared;
    const { rows, columns } = products;
    const size = Array.from({ length: columns }, (_, at) =>
      products.column(at).reduce((sum, value) => sum + Math.abs(value), 0),
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
    this.heatMap.show({ matrix: shown, ...about, scale: new Scale(smallest, largest, true) });
    this.table.replaceChildren(
      spoken(shown, { ...about, caption: `Products of features. ${this.compared.caption}`, row: 0 }),
    );
    this.describe();
  }

  /** @param {Float32Array} weights what the scores became */
  score(weights) {
    const { map, scores } = /** @type {Compared} */ (this.compared);
    const most = scores.reduce((largest, score) => Math.max(largest, Math.abs(score)), 1e-12);
    const rows = map.columns.map((key, at) => {
      const bar = element("span", { class: scores[at] < 0 ? "bar below" : "bar" });
      bar.style.width = `${(100 * Math.abs(scores[at])) / most}%`;
      return element(
        "tr",
        { "data-score": scores[at], "data-weight": weights[at] },
        element("th", { scope: "row" }, element("bdi", {}, visible(key, 18))),
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
    const { map, products, scores } = this.compared;
    const [product, score] = [products.at(row, this.features[column]), scores[row]].map(written);
    return `${visible(map.columns[row])}, feature ${this.features[column]}: ${product}, score ${score}`;
  }

  describe() {
    if (!this.compared) return;
    const { map, query, keys, products } = this.compared;
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
          element("strong", {}, written(value)),
          element("p", { class: "note" }, `${written(query[feature])} × ${written(keys.at(row, feature))}`),
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
 * @param {{query: Float32Array, keys: Matrix}} compared
 * @returns {{products: Matrix, scores: Float32Array}} feature by feature, and their sums
 */
function multiplied({ query, keys }) {
  const products = new Matrix(
    keys.values.map((value, at) => value * query[at % keys.columns]),
    keys.rows,
    keys.columns,
  );
  const scores = Float32Array.from({ length: keys.rows }, (_, row) =>
    products.row(row).reduce((sum, value) => sum + value, 0),
  );
  return { products, scores };
}
