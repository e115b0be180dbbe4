/**
 * A box to type in, or two for a pair: the text is sent to the server of this page, and the record it returns is
 * shown. The address of the page holds the text, so that it is there again after a reload. For a text that is too long
 * to be shown whole there is one more box: the token from which on every weight is asked for.
 */

import { element } from "./elements.js";

/**
 * @param {(records: unknown[]) => void} show
 * @param {boolean} pairs whether there may be a second text
 * @param {import("./store.js").Store} store
 * @returns {HTMLFormElement}
 */
export function liveForm(show, pairs, store) {
  const input = box("text", "Type a text and press Enter");
  const second = pairs && box("second", "second text, passage");
  const from = element("input", { type: "number", name: "from", min: "0", title: "from token", hidden: true });
  from.setAttribute("aria-label", "from token");
  const status = element("p", { class: "status", role: "status" });
  /** @type {AbortController | null} */
  let asked = null;

  /** @param {string} text */
  const ask = async (text) => {
    asked?.abort();
    const own = new AbortController();
    asked = own;
    status.className = "status";
    status.textContent = "looking …";
    try {
      const records = await look(text, store.state.from, own.signal);
      from.hidden = !records.some(isLong);
      show(records);
      status.textContent = "";
    } catch (error) {
      if (asked !== own) return;
      status.className = "status error";
      status.textContent = error instanceof Error ? error.message : String(error);
    }
  };

  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const text = second && second.value ? `${input.value}\t${second.value}` : input.value;
    const first = from.hidden || from.value === "" || text !== typed ? -1 : Number(from.value);
    typed = text;
    store.set({ text, from: first, query: -1, key: -1 });
    ask(text);
  };

  /** A text that came with the address. @param {string} text */
  const take = (text) => {
    if (text === typed) return;
    typed = text;
    const [one, other = ""] = second ? [text.split("\t")[0], text.split("\t").slice(1).join("\t")] : [text];
    input.value = one;
    if (second) second.value = other;
    from.value = store.state.from < 0 ? "" : String(store.state.from);
    if (text) ask(text);
  };
  let typed = "";
  store.subscribe(({ text }) => take(text));
  queueMicrotask(() => take(store.state.text));
  return element(
    "form",
    { class: "live", onsubmit: submit },
    input,
    second,
    from,
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
 * @param {string} text
 * @param {number} from the token from which on a long text is shown with every weight, or -1
 * @param {AbortSignal} signal
 * @returns {Promise<unknown[]>} a record for each model
 */
async function look(text, from, signal) {
  const answer = await fetch("./look", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(from < 0 ? { text } : { text, from }),
    signal,
  }).catch((error) => {
    throw signal.aborted ? error : new Error("the server does not answer; is it still running?");
  });
  const said = await answer.json().catch(() => null);
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
