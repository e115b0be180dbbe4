/**
 * Making elements. Text only ever enters the page as text nodes and attribute values, never as markup.
 *
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {string | number | boolean | null | undefined | ((event: any) => void)} Property
 * @typedef {{[name: string]: Property}} Properties
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element: `on…` properties listen, everything else becomes an attribute (null and false are left out).
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, properties = {}, ...children) {
  return complete(document.createElement(tag), properties, children);
}

/**
 * The same for a shape of a drawing.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function shape(tag, properties = {}, ...children) {
  return complete(document.createElementNS(SVG, tag), properties, children);
}

/**
 * @template {Element} Made
 * @param {Made} made
 * @param {Properties} properties
 * @param {Child[]} children
 * @returns {Made}
 */
function complete(made, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") {
      made.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) {
      made.append(child instanceof Node ? child : String(child));
    }
  }
  return made;
}

/**
 * A button of a row of choices.
 *
 * @param {string} label
 * @param {boolean} pressed
 * @param {() => void} choose
 * @param {Properties} [properties]
 */
export function choice(label, pressed, choose, properties = {}) {
  return element(
    "button",
    { type: "button", class: "choice", "aria-pressed": String(pressed), onclick: choose, ...properties },
    label,
  );
}
