/**
 * A box to type in, or two for a pair: the text is sent to the server of this page, and the record it returns is
 * shown. The address of the page holds the text, so that it is there again after a reload. For a text that is too long
 * to be shown whole there is one more box: the token from which on every weight is asked for. Where the server has
 * several models, one is chosen; for a model that reads pictures, a file takes the place of the text. Where the server
 * needs a key, there is a box for it, whose content is sent and kept nowhere.
 *
 * @typedef {{name: string, examples: string[], picture: boolean, pair: boolean}} Choice a model
 */

import { element } from "./elements.js";

/**
 * @param {(records: unknown[]) => void} show
 * @param {boolean} pairs whether there may be a second text
 * @param {import("./store.js").Store} store
 * @param {Choice[]} models those that can be chosen
 * @returns {HTMLFormElement}
 */
export function liveForm(show, pairs, store, models) {
  const input = box("text", "Type a text and press Enter");
  const second = pairs && box("second", "second text, passage");
  const file = element("input", { type: "file", accept: "image/*", "aria-label": "picture", hidden: true });
  const choice = element(
    "select",
    { "aria-label": "model", hidden: models.length < 2, onchange: () => store.set({ model: choice.value, text: "" }) },
    ...models.map(({ name }) => element("option", { value: name }, name)),
  );
  const picked = () => models.find(({ name }) => name === store.state.model) ?? models[0];
  const from = element("input", { type: "number", name: "from", min: "0", title: "from token", hidden: true });
  from.setAttribute("aria-label", "from token");
  const key = element("input", { type: "password", autocomplete: "off", placeholder: "API key", "aria-label": "API key", hidden: true });
  const status = element("p", { class: "status", role: "status" });
  /** @type {AbortController | null} */
  let asked = null;

  /** @param {object} question what is posted */
  const ask = async (question) => {
    asked?.abort();
    const own = new AbortController();
    asked = own;
    status.className = "status";
    status.textContent = "looking …";
    try {
      const records = await look({ ...question, ...(picked() && { model: picked().name }) }, key.value, own.signal);
      from.hidden = !records.some(isLong);
      show(records);
      status.textContent = "";
    } catch (error) {
      if (asked !== own) return;
      key.hidden &&= !(error instanceof Unknown);
      status.className = "status error";
      status.textContent = error instanceof Error ? error.message : String(error);
    }
  };

  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    if (picked()?.picture) {
      if (file.files?.length) read(file.files[0]).then((picture) => ask({ input: { picture } }));
      return;
    }
    const text = second && !second.hidden && second.value ? `${input.value}\t${second.value}` : input.value;
    const first = from.hidden || from.value === "" || text !== typed ? -1 : Number(from.value);
    typed = text;
    store.set({ text, from: first, query: -1, key: -1 });
    ask(question(text));
  };

  /** @param {string} text */
  const question = (text) => (store.state.from < 0 ? { text } : { text, from: store.state.from });

  /** Shows the boxes that the chosen model reads. */
  const dress = () => {
    const { name = "", examples = [], picture = false, pair = true } = picked() ?? {};
    if (name) choice.value = name;
    if (examples.length) input.placeholder = `${examples[0]}, then Enter`;
    if (second && examples.length > 1) second.placeholder = examples[1];
    input.hidden = picture;
    if (second) second.hidden = picture || !pair;
    file.hidden = !picture;
  };

  /** A text that came with the address. @param {string} text */
  const take = (text) => {
    if (text === typed) return;
    typed = text;
    const [one, other = ""] = second ? [text.split("\t")[0], text.split("\t").slice(1).join("\t")] : [text];
    input.value = one;
    if (second) second.value = other;
    from.value = store.state.from < 0 ? "" : String(store.state.from);
    if (text) ask(question(text));
  };
  let typed = "";
  store.subscribe(({ text }) => {
    dress();
    take(text);
  });
  dress();
  queueMicrotask(() => take(store.state.text));
  return element(
    "form",
    { class: "live", onsubmit: submit },
    choice,
    input,
    second,
    file,
    from,
    key,
    element("button", { type: "submit" }, "Look"),
    status,
  );
}

/**
 * @param {string} name
 * @param {string} placeholder
 */
function box(name, placeholder) {
  return element("input", {
    type: "text",
    name,
    autocomplete: "off",
    spellcheck: "false",
    placeholder,
    "aria-label": name === "text" ? name : placeholder,
  });
}

/**
 * @param {File} file
 * @returns {Promise<string>} a data URL
 */
function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** A key is needed, or is not the right one. */
class Unknown extends Error {}

/**
 * @param {object} question
 * @param {string} key of the API, where one was given
 * @param {AbortSignal} signal
 * @returns {Promise<unknown[]>} a record for each model
 */
async function look(question, key, signal) {
  const answer = await fetch("./look", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) },
    body: JSON.stringify(question),
    signal,
  }).catch((error) => {
    throw signal.aborted ? error : new Error("the server does not answer; is it still running?");
  });
  const said = await answer.json().catch(() => null);
  if (answer.status === 401 || answer.status === 403) throw new Unknown(complaint(said) ?? "a key is needed");
  if (!answer.ok || said === null)
    throw new Error(complaint(said) ?? `the server answered with status ${answer.status}`);
  return Array.isArray(said) ? said : [said];
}

/**
 * Whether parts of the maps were kept, because there are too many weights.
 *
 * @param {unknown} record
 */
function isLong(record) {
  const { maps = [] } = /** @type {{maps?: {part?: string}[]}} */ (record);
  return maps.some(({ part }) => part);
}

/** @param {any} said */
function complaint(said) {
  const words = said?.error?.message ?? said?.error ?? said?.detail;
  return typeof words === "string" ? words : null;
}
