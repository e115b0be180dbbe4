/** Who looks at whom: the weights of one head, or the mean of all, as a heat map. */

import { caption, chosen } from "./chosen.js";
import { Explorer } from "./explorer.js";

/** @type {import("./views.js").View} */
export const alignment = {
  name: "alignment",
  label: "Alignment",
  labelFor: (records) =>
    records.some(({ groups }) => groups.some(({ kind }) => kind === "cross")) ? "Alignment" : "Weights",
  about: "Each row shows where one item looked: the stronger the colour, the more.",
  head: "mean",
  groups: (record) => record.groups,
  available: (record) => record.groups.length > 0,
  create: (host, record, page) => new Alignment(host, record, page),
};

class Alignment {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.asked = "";
    /** @type {import("./explorer.js").Explored | null} */
    this.explored = null;
    this.explorer = new Explorer(host, page, "attention weights");
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const what = chosen(this.record.groups, state);
    const { group, map, head } = what;
    const asked = `${map.id} ${head}`;
    if (asked !== this.asked) {
      this.asked = asked;
      this.explored = null;
      const matrix = await map.matrix(head);
      if (asked !== this.asked) return;
      this.explored = {
        matrix,
        rows: map.labels,
        columns: map.columns,
        caption: caption(what),
        kind: group.kind,
        who: (row) => map.who(row),
        note: map.notes,
        part: map.whole !== map,
        rowRange: map.rowRange,
        columnRange: map.columnRange,
      };
    }
    if (this.explored) this.explorer.show(this.explored, state);
  }

  destroy() {
    this.explorer.destroy();
  }
}
