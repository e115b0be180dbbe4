/** Attention on a picture: the patches that the chosen item looked at stand out of it. */

import { caption, chosen } from "./chosen.js";
import { Picture } from "./picture.js";

/** @type {import("./views.js").View} */
export const patches = {
  name: "picture",
  label: "Picture",
  about: "The parts of the picture that the chosen item looked at stay lit.",
  head: "mean",
  groups: pictured,
  available: (record) => pictured(record).length > 0,
  create: (host, record, page) => new Patches(host, record, page),
};

/** @param {import("./record.js").Record} record */
function pictured(record) {
  return record.groups.filter(({ key }) => record.sides[key]?.kind === "patches");
}

class Patches {
  /**
   * @param {HTMLElement} host
   * @param {import("./record.js").Record} record
   * @param {import("./views.js").Page} page
   */
  constructor(host, record, page) {
    this.record = record;
    this.asked = "";
    /** @type {import("./picture.js").Pictured | null} */
    this.shown = null;
    this.picture = new Picture(host, record, page);
  }

  /** @param {import("./store.js").State} state */
  async update(state) {
    const what = chosen(pictured(this.record), state);
    const { group, map, head } = what;
    const asked = `${map.id} ${head}`;
    if (asked !== this.asked) {
      this.asked = asked;
      this.shown = null;
      const matrix = await map.matrix(head);
      if (asked !== this.asked) return;
      this.shown = {
        matrix,
        rows: map.rows,
        columns: map.columns,
        query: group.query,
        key: group.key,
        caption: caption(what),
        note: map.notes,
      };
    }
    if (this.shown) this.picture.show(this.shown, state);
  }

  destroy() {
    this.picture.destroy();
  }
}
