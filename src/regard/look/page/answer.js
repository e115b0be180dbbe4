/** The answer, always visible: its tokens, the probability of each, and the alternatives. */

import { element } from "./elements.js";
import { percent, probability, visible } from "./tokens.js";

/**
 * @param {import("./record.js").Record} record
 * @param {(at: number) => void} choose
 */
export function answerCard(record, choose) {
  const { model = {}, answer, sides } = record.raw;
  const target = sides?.target?.items ?? [];
  const source = sides?.source?.text ?? "";
  const about = [model.name, model.kind, model.task]
    .filter(Boolean)
    .map((text) => visible(text, 60))
    .join(" · ");
  const count = Math.max(answer?.logprobs?.length ?? 0, answer?.alternatives?.length ?? 0);
  const card = element(
    "section",
    { class: "answer", "aria-label": "answer" },
    about && element("p", { class: "model" }, about),
    ...(record.raw.notes ?? []).map((note) => element("p", { class: "told", role: "note" }, visible(note, 1000))),
  );
  if (source) card.append(element("p", { class: "source", dir: "auto" }, visible(source, 2000)));
  if (count === 0) {
    const text = answer?.text ?? "";
    if (text) card.append(element("p", { class: "source", dir: "auto" }, visible(text, 2000)));
    return card;
  }
  const popover = element("div", { class: "popover", role: "tooltip", hidden: true });
  const tokens = Array.from({ length: count }, (_, at) => {
    const alternatives = answer?.alternatives?.[at] ?? [];
    const name = target[at] ?? alternatives[0]?.[0] ?? String(at);
    return token(name, answer?.logprobs?.[at], at, alternatives, {
      show: (chip) => show(popover, chip, alternatives),
      hide: () => {
        popover.hidden = true;
      },
      choose: () => choose(at),
    });
  });
  tokens[0]?.setAttribute("tabindex", "0");
  card.append(
    element(
      "div",
      {
        class: "tokens",
        role: "group",
        "aria-label": visible(answer?.text ?? "", 2000),
        onkeydown: (/** @type {KeyboardEvent} */ event) => move(event, tokens),
      },
      ...tokens,
    ),
    popover,
  );
  return card;
}

/**
 * Marks a token of an answer as chosen.
 *
 * @param {HTMLElement} card
 * @param {number} chosen
 */
export function markToken(card, chosen) {
  for (const chip of card.querySelectorAll("[data-at]"))
    chip.setAttribute("aria-pressed", String(chip.getAttribute("data-at") === String(chosen)));
}

/**
 * @param {string} name
 * @param {number | null | undefined} logprob
 * @param {number} at
 * @param {[string, number | null][]} alternatives
 * @param {{show: (chip: HTMLElement) => void, hide: () => void, choose: () => void}} events
 */
function token(name, logprob, at, alternatives, { show, hide, choose }) {
  const sure = element("span", { class: "sure" });
  sure.style.width = `${100 * probability(logprob)}%`;
  const known = logprob !== undefined;
  /** @type {HTMLButtonElement} */
  const chip = element(
    "button",
    {
      type: "button",
      class: "token",
      tabindex: -1,
      "data-at": at,
      "data-probability": known ? probability(logprob) : null,
      "aria-pressed": "false",
      "aria-label": known ? `${visible(name)}, ${percent(logprob)}` : visible(name),
      "aria-description":
        alternatives.map(([other, chance]) => `${visible(other)} ${percent(chance)}`).join(", ") || null,
      onpointerenter: () => show(chip),
      onfocus: () => show(chip),
      onpointerleave: hide,
      onblur: hide,
      onclick: choose,
    },
    element("bdi", {}, visible(name)),
    known && element("span", { class: "track" }, sure),
  );
  return chip;
}

/**
 * @param {HTMLElement} popover
 * @param {HTMLElement} chip
 * @param {[string, number | null][]} alternatives
 */
function show(popover, chip, alternatives) {
  const own = element("p", {}, chip.getAttribute("aria-label") ?? "");
  popover.replaceChildren(
    own,
    ...(alternatives.length
      ? [
          element(
            "ol",
            {},
            ...alternatives.map(([name, logprob]) => {
              const bar = element("span", { class: "bar" });
              bar.style.width = `${100 * probability(logprob)}%`;
              return element(
                "li",
                {},
                element("bdi", {}, visible(name, 18)),
                element("span", { class: "track" }, bar),
                element("span", { class: "number" }, percent(logprob)),
              );
            }),
          ),
        ]
      : []),
  );
  popover.hidden = false;
  const place = chip.getBoundingClientRect();
  popover.style.left = `${Math.max(Math.min(place.left, innerWidth - popover.offsetWidth - 12), 4)}px`;
  popover.style.top = `${place.bottom + 6}px`;
}

/**
 * @param {KeyboardEvent} event
 * @param {HTMLElement[]} tokens
 */
function move(event, tokens) {
  const at = tokens.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  /** @type {{[key: string]: number}} */
  const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tokens.length - 1 };
  const to = tokens[moves[event.key]];
  if (at < 0 || !to) return;
  event.preventDefault();
  tokens[at].setAttribute("tabindex", "-1");
  to.setAttribute("tabindex", "0");
  to.focus();
}
