/** The page: the answer on top, a tab for each view, the choices, and one picture for each record. */

import { answerCard, markToken } from "./answer.js";
import { chosen } from "./chosen.js";
import { Controls } from "./controls.js";
import { element } from "./elements.js";
import { keysHelp } from "./keys.js";
import { liveForm } from "./live.js";
import { theme } from "./palette.js";
import { Record } from "./record.js";
import { Scales } from "./scales.js";
import { visible } from "./tokens.js";
import { VIEWS } from "./views.js";

export class Application {
  /**
   * @param {HTMLElement} host
   * @param {import("./store.js").Store} store
   * @param {boolean} live
   */
  constructor(host, store, live) {
    this.store = store;
    this.live = live;
    /** @type {Record[]} */
    this.records = [];
    /** @type {HTMLElement[]} */
    this.cards = [];
    /** @type {import("./views.js").Shown[]} */
    this.shown = [];
    this.controls = new Controls(store);
    this.title = element("h1");
    this.answers = element("div", { class: "answers" });
    this.tabs = element("div", {
      class: "tabs",
      role: "tablist",
      "aria-label": "views",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.moveTab(event),
    });
    this.about = element("p", { class: "about" });
    this.panes = element("div", { class: "panes", id: "view", role: "tabpanel", tabindex: -1 });
    this.voice = element("p", { class: "hidden", role: "status", "aria-live": "polite" });
    this.themeButton = element("button", {
      type: "button",
      class: "quiet",
      onclick: () => store.set({ theme: theme() === "dark" ? "light" : "dark" }),
    });
    const { dialog, button } = keysHelp();
    const { dataset } = document.documentElement;
    host.append(
      element(
        "header",
        {},
        element("span", { class: "brand" }, "regard"),
        this.title,
        live && liveForm((records) => this.show(records), "pairs" in dataset, store, JSON.parse(dataset.models ?? "[]")),
        button,
        this.themeButton,
      ),
      this.answers,
      this.tabs,
      element("div", { class: "bar-of-choices" }, this.controls.host, this.about),
      element("main", {}, this.panes),
      this.voice,
      dialog,
    );
    store.subscribe((state, before) => this.follow(state, before));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
    document.addEventListener("keydown", (event) => this.press(event));
    this.dress();
  }

  /**
   * Shows these records and removes the earlier ones.
   *
   * @param {unknown[]} raw
   */
  show(raw) {
    this.answers.replaceChildren();
    this.records = [];
    for (const one of raw) {
      try {
        this.records.push(new Record(/** @type {import("./record.js").Raw} */ (one)));
      } catch (error) {
        this.answers.append(complaint(error));
      }
    }
    this.title.textContent = this.records
      .map(({ raw: { title = "" } }) => visible(title || "untitled", 120))
      .join(" and ");
    this.title.classList.toggle(
      "hidden",
      this.records.length > 0 &&
        this.records.every(({ raw: { sides, answer } }) => sides?.source?.text || answer?.text),
    );
    document.title = this.records.length ? `${this.title.textContent} · regard` : "regard";
    this.cards = this.records.map((record) => answerCard(record, (at) => this.chooseToken(record, at)));
    this.answers.append(...this.cards);
    document.documentElement.style.setProperty("--records", String(Math.max(this.records.length, 1)));
    this.rebuild();
  }

  /** The views that can show at least one of the records. */
  available() {
    return VIEWS.filter((view) => this.records.some((record) => view.available(record)));
  }

  /** @returns {import("./views.js").View | undefined} */
  view() {
    const views = this.available();
    return views.find(({ name }) => name === this.store.state.view) ?? views[0];
  }

  /** @param {import("./views.js").View} view */
  label(view) {
    return view.labelFor?.(this.records) ?? view.label;
  }

  /** Draws everything below the answers anew. */
  rebuild() {
    for (const shown of this.shown) shown.destroy();
    this.shown = [];
    this.dress();
    const view = this.view();
    const announce = (/** @type {string} */ text) => this.announce(text);
    const page = { store: this.store, announce, scales: new Scales() };
    this.tabs.replaceChildren(
      ...this.available().map((each) =>
        element(
          "button",
          {
            type: "button",
            role: "tab",
            "data-view": each.name,
            "aria-selected": String(each === view),
            "aria-controls": "view",
            tabindex: each === view ? 0 : -1,
            onclick: () => this.store.set({ view: each.name }),
          },
          this.label(each),
        ),
      ),
    );
    this.about.textContent = view?.aboutFor?.(this.records) ?? view?.about ?? "";
    this.panes.replaceChildren();
    this.panes.setAttribute("aria-label", view ? this.label(view) : "nothing");
    this.panes.dataset.view = view?.name ?? "";
    if (!view) {
      this.panes.append(
        element(
          "p",
          { class: "hint" },
          this.live ? "Type a text above to see what the model looks at." : "There is nothing to show in this page.",
        ),
      );
      return;
    }
    for (const record of this.records) {
      const pane = element("section", { class: "pane" });
      this.panes.append(pane);
      if (view.available(record)) this.shown.push(view.create(pane, record, page));
      else pane.append(element("p", { class: "hint" }, "This record has nothing for this view."));
    }
    this.update();
  }

  update() {
    const view = this.view();
    if (!view) return;
    this.controls.show(view, this.records);
    const { query } = this.store.state;
    this.records.forEach((record, at) => {
      const places = record.raw.answer?.places ?? [];
      const from = this.looksFrom(record);
      const row = query < 0 ? -1 : query + (from?.map.rowRange[0] ?? 0);
      markToken(this.cards[at], !from || from.group.query === "target" ? row : places.indexOf(row));
    });
    for (const shown of this.shown) {
      shown.update(this.store.state).catch((error) => this.panes.prepend(complaint(error)));
    }
  }

  /**
   * The map, layer and head shown of a record; null where a view shows no map.
   *
   * @param {Record} record
   */
  looksFrom(record) {
    const groups = this.view()?.groups(record) ?? [];
    return groups.length ? chosen(groups, this.store.state) : null;
  }

  /**
   * Selects a token of the answer: its row in a map whose queries are the answer; without such a map, the row of the
   * source item that it is about.
   *
   * @param {Record} record
   * @param {number} at
   */
  chooseToken(record, at) {
    const shown = this.looksFrom(record);
    const from = shown?.group.query ?? "target";
    const fitting =
      from === "target"
        ? null
        : this.view()
            ?.groups(record)
            .find(({ query }) => query === "target");
    const place = from === "target" || fitting ? at : record.raw.answer?.places?.[at];
    if (place === undefined) return;
    const [first, end] = shown?.map.rowRange ?? [0, Infinity];
    const inside = fitting || (place >= first && place < end);
    const whole = inside ? null : record.groups.find(({ maps }) => maps.some((each) => each === shown?.map.whole));
    const row = fitting || whole ? place : place - first;
    const { query, map } = this.store.state;
    const change = fitting ?? whole;
    this.store.set({ map: change?.id ?? map, query: query === row && !change ? -1 : row, key: -1 });
  }

  /**
   * @param {import("./store.js").State} state
   * @param {import("./store.js").State} before
   */
  follow(state, before) {
    if (state.view === before.view && state.theme === before.theme) return this.update();
    const inTabs = this.tabs.contains(document.activeElement);
    this.rebuild();
    if (inTabs) /** @type {HTMLElement | null} */ (this.tabs.querySelector("[aria-selected=true]"))?.focus();
  }

  /** Light or dark. */
  dress() {
    const { theme: asked } = this.store.state;
    if (asked === "light" || asked === "dark") document.documentElement.dataset.theme = asked;
    else delete document.documentElement.dataset.theme;
    const other = theme() === "dark" ? "light" : "dark";
    this.themeButton.textContent = other === "dark" ? "Dark" : "Light";
    this.themeButton.setAttribute("aria-label", `show in ${other} colours`);
  }

  /** @param {string} text */
  announce(text) {
    this.voice.textContent = text;
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const typing = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
    const view = this.view();
    if (typing || !view || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.controls.key(view, this.records, event.key)) event.preventDefault();
  }

  /** @param {KeyboardEvent} event */
  moveTab(event) {
    const views = this.available();
    const at = views.indexOf(/** @type {import("./views.js").View} */ (this.view()));
    /** @type {{[key: string]: number}} */
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: views.length - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.store.set({ view: views[(moves[event.key] + views.length) % views.length].name });
  }
}

/** @param {unknown} error */
function complaint(error) {
  return element(
    "p",
    { class: "error", role: "alert" },
    `This record cannot be shown: ${error instanceof Error ? error.message : error}.`,
  );
}
