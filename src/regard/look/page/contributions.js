/** One query of one head: the products of its features with those of each key, and the scores they sum to. */

import { legend } from "./cells.js";
import { choice, element } from "./elements.js";
import { HeatMap } from "./heat_map.js";
import { Matrix } from "./matrix.js";
import { Scale } from "./palette.js";
import { names } from "./record.js";
import { spoken } from "./table.js";
import { visible, written } from "./tokens.js";

/** @type {import("./views.js").View} */
export const contributions = {
  name: "query",
  label: "One query",
  about: "Each cell is one feature of the query times the same feature of a key; each row sums to the key's score.",
  head: "none",
  layerless: true,
  groups: () => [],
  available: (record) => Boolean(record.raw.contributions),
  create: (host, record, page) => new Contributions(host, record, page),
};

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
    this.raw = /** @type {import("./record.js").Contributions} */ (record.raw.contributions);
    this.found = record.find(this.raw.map);
    const { query_vector: query, key_vectors: keys } = this.raw;
    this.keys = names(this.found?.map.columns, keys.length);
    this.products = new Matrix(
      Float32Array.from(keys.flatMap((key) => key.map((value, at) => value * query[at]))),
      keys.length,
      query.length,
    );
    this.scores = keys.map((key) => key.reduce((sum, value, at) => sum + value * query[at], 0));
    this.order = choice("largest features first", false, () => this.reorder());
    this.reading = element("div", { class: "details" });
    this.picture = element("div", { class: "picture" });
    this.scoreTable = element("table", { class: "scores" });
    this.table = element("div", { class: "hidden" });
    host.append(
      element("p", { class: "subject" }, this.subject()),
      element(
        "div",
        { class: "split" },
        this.picture,
        element("aside", { class: "panel" }, this.reading, this.order, this.scoreTable),
      ),
      this.table,
    );
    this.heatMap = new HeatMap(this.picture, {
      label: "products of features; arrow keys move from cell to cell",
      point: () => this.describe(),
      choose: ({ row, column }) => {
        this.heatMap.select(row, column);
        this.describe();
        if (row < 0 || column < 0) return;
        const [product, score] = [this.shown.at(row, column), this.scores[row]].map(written);
        page.announce(`${visible(this.keys[row])}, feature ${this.features[column]}: ${product}, score ${score}`);
      },
    });
    this.features = query.map((_, at) => at);
    this.shown = this.products;
    this.draw();
  }

  subject() {
    const { head, query, map } = this.raw;
    const name = this.found?.map.rows[query] ?? String(query);
    const layer =
      this.found && this.found.group.maps.length > 1 ? `layer ${this.found.group.layers()[this.found.layer]}, ` : "";
    return `The query of ${visible(name, 40)} in ${this.found ? this.found.group.label : map}, ${layer}head ${head}`;
  }

  reorder() {
    this.ordered = !this.ordered;
    this.order.setAttribute("aria-pressed", String(this.ordered));
    this.draw();
  }

  draw() {
    const size = this.products.values.length
      ? this.features.map((_, at) => this.products.column(at).reduce((sum, value) => sum + Math.abs(value), 0))
      : [];
    this.features = size.map((_, at) => at);
    if (this.ordered) this.features.sort((a, b) => size[b] - size[a]);
    const { rows, columns } = this.products;
    this.shown = new Matrix(
      Float32Array.from({ length: rows * columns }, (_, at) =>
        this.products.at(Math.floor(at / columns), this.features[at % columns]),
      ),
      rows,
      columns,
    );
    const { smallest, largest } = this.products.extent();
    const labels = this.features.map((feature) => `${feature}`);
    this.heatMap.show({
      matrix: this.shown,
      rows: this.keys,
      columns: labels,
      scale: new Scale(smallest, largest, true),
    });
    this.table.replaceChildren(
      spoken(this.shown, {
        rows: this.keys,
        columns: labels,
        caption: `Products of features. ${this.subject()}`,
        row: 0,
      }),
    );
    this.describe();
  }

  /** @param {import("./store.js").State} _state */
  async update(_state) {
    const weights = this.found ? (await this.found.map.matrix(this.raw.head)).row(this.raw.query) : null;
    const most = this.scores.reduce((largest, score) => Math.max(largest, Math.abs(score)), 1e-12);
    const rows = this.keys.map((key, at) => {
      const bar = element("span", { class: this.scores[at] < 0 ? "bar below" : "bar" });
      bar.style.width = `${(100 * Math.abs(this.scores[at])) / most}%`;
      return element(
        "tr",
        { "data-score": this.scores[at], "data-weight": weights?.[at] ?? null },
        element("th", { scope: "row" }, element("bdi", {}, visible(key, 18))),
        element("td", {}, element("span", { class: "track" }, bar)),
        element("td", {}, written(this.scores[at])),
        element("td", {}, weights ? written(weights[at]) : "–"),
      );
    });
    this.scoreTable.replaceChildren(
      element("tr", {}, element("th", {}, "key"), element("th", { colspan: 2 }, "score"), element("th", {}, "weight")),
      ...rows,
    );
  }

  describe() {
    const { row, column } = this.heatMap.pointed ?? this.heatMap.selected;
    const parts = [legend(this.heatMap.cells.scaleAt(0), written)];
    if (row >= 0 && column >= 0) {
      const feature = this.features[column];
      const value = this.products.at(row, feature);
      parts.unshift(
        element(
          "div",
          { class: "reading", "data-value": value },
          element("p", {}, element("bdi", {}, visible(this.keys[row], 30)), `, feature ${feature}`),
          element("strong", {}, written(value)),
          element(
            "p",
            { class: "note" },
            `${written(this.raw.query_vector[feature])} × ${written(this.raw.key_vectors[row][feature])}`,
          ),
        ),
      );
    }
    this.reading.replaceChildren(...parts);
  }

  destroy() {
    this.heatMap.destroy();
  }
}
