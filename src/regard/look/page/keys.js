/** The list of keys and their actions. */

import { element } from "./elements.js";

const KEYS = [
  ["Tab", "to the next thing: answer, views, choices, picture"],
  ["← → ↑ ↓", "from cell to cell, token to token, tab to tab"],
  ["[  ]", "the layer before, the layer after"],
  [",  .", "the head before, the head after"],
  ["+  −  0", "larger, smaller, everything"],
  ["Esc", "clear the selection"],
];

export function keysHelp() {
  const dialog = element(
    "dialog",
    { class: "keys", "aria-label": "keys" },
    element("h2", {}, "Keys"),
    element(
      "dl",
      {},
      ...KEYS.flatMap(([key, meaning]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, meaning)]),
    ),
    element("form", { method: "dialog" }, element("button", { type: "submit" }, "Close")),
  );
  const button = element(
    "button",
    { type: "button", class: "quiet", "aria-haspopup": "dialog", onclick: () => dialog.showModal() },
    "Keys",
  );
  return { dialog, button };
}
