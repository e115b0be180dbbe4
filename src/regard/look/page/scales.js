/** One colour scale for pictures side by side: the same colour is the same number in all of them. */

import { Scale } from "./palette.js";

/** @typedef {{smallest: number, end: number, largest: number}} Span */

export class Scales {
  constructor() {
    /** @type {Map<object, {name: string, span: Span, paint: () => void}>} */
    this.members = new Map();
  }

  /**
   * Registers a picture's numbers and paints it; pictures of the same name are painted again if the scale changes.
   *
   * @param {object} member
   * @param {string} name
   * @param {Span} span
   * @param {() => void} paint
   */
  join(member, name, span, paint) {
    const before = JSON.stringify(this.joint(name));
    this.members.set(member, { name, span, paint });
    const changed = JSON.stringify(this.joint(name)) !== before;
    for (const [other, { name: its, paint: again }] of this.members)
      if (other === member || (changed && its === name)) again();
  }

  /**
   * @param {string} name
   * @returns {Span & {count: number}} of all members of a name, and how many they are
   */
  joint(name) {
    const spans = [...this.members.values()].filter((member) => member.name === name).map(({ span }) => span);
    return {
      smallest: Math.min(...spans.map(({ smallest }) => smallest)),
      end: Math.max(...spans.map(({ end }) => end)),
      largest: Math.max(...spans.map(({ largest }) => largest)),
      count: spans.length,
    };
  }

  /**
   * @param {string} name
   * @param {boolean} [signed]
   */
  scale(name, signed) {
    const { smallest, end, largest } = this.joint(name);
    return new Scale(smallest, end, signed, largest);
  }
}
