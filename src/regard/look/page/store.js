/**
 * The state of the page: what is shown and selected. Everything else is drawn from it, and the address of the page
 * holds it, so that sharing an address shares the view.
 *
 * @typedef {object} State
 * @property {string} view
 * @property {string} map which group of maps
 * @property {number} layer its place in the group; -1 is the last
 * @property {string} head the number of a head, or "mean"
 * @property {string} heads the numbers of the heads whose lines are shown, or "all"
 * @property {number} query the chosen row, or -1
 * @property {number} key the chosen column, or -1
 * @property {string} marks on a picture: "light" on the patches looked at, or "arrows" to the strongest
 * @property {string} scale "map": one colour scale for all rows; "row": one for each
 * @property {string} text what was typed on a live page
 * @property {string} model the name of the model that is asked, or "" for the first
 * @property {number} from the token from which on a long text is shown with every weight, or -1
 * @property {string} theme "light", "dark", or "" for what the system prefers
 */

/** @type {State} */
const INITIAL = {
  view: "",
  map: "",
  layer: -1,
  head: "mean",
  heads: "all",
  query: -1,
  key: -1,
  marks: "light",
  scale: "map",
  text: "",
  model: "",
  from: -1,
  theme: "",
};

export class Store {
  /** @param {string} hash the part of an address from # on */
  constructor(hash) {
    /** @type {State} */
    this.state = read(hash);
    /** @type {Set<(state: State, before: State) => void>} */
    this.listeners = new Set();
  }

  /** @param {Partial<State>} change */
  set(change) {
    const before = this.state;
    const names = /** @type {(keyof State)[]} */ (Object.keys(change));
    if (names.every((name) => before[name] === change[name])) return;
    this.state = { ...before, ...change };
    for (const listener of this.listeners) listener(this.state, before);
  }

  /** @param {(state: State, before: State) => void} listener */
  subscribe(listener) {
    this.listeners.add(listener);
  }

  /** The state as part of an address: the values that differ from the initial ones. */
  hash() {
    const changed = Object.entries(this.state).filter(
      ([name, value]) => value !== INITIAL[/** @type {keyof State} */ (name)],
    );
    return `#${new URLSearchParams(changed.map(([name, value]) => [name, String(value)]))}`;
  }

  /** Keeps the address and the state equal, both ways. */
  followAddress() {
    window.addEventListener("hashchange", () => this.set(read(location.hash)));
    this.subscribe(() => {
      try {
        history.replaceState(null, "", this.hash());
      } catch {
        // inside a notebook's frame there is no address to keep
      }
    });
  }
}

/**
 * @param {string} hash
 * @returns {State}
 */
function read(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  /** @type {{[name: string]: string | number}} */
  const state = { ...INITIAL };
  for (const [name, initial] of Object.entries(INITIAL)) {
    const value = given.get(name);
    if (value === null) continue;
    if (typeof initial === "string") state[name] = value;
    else if (/^\d+$/.test(value)) state[name] = Number(value);
  }
  return /** @type {State} */ (/** @type {unknown} */ (state));
}
