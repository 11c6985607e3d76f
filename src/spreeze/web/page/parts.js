// Pieces that both views have: the state of a run, a choice between a few words.

import { h, setAttribute, setText } from "./dom.js";
import { kept, keep } from "./kept.js";

export const STATES = {
  starting: ["starting", "busy"], running: ["training", "good"], silent: ["silent", "warn"], solved: ["solved", "good"],
  finished: ["finished", "over"], stopped: ["stopped", "over"], failed: ["failed", "bad"],
};
export const LIVE = ["starting", "running"];

export class Badge {
  constructor() {
    this.word = h("span");
    this.element = h("span", { class: "badge" }, h("span", { class: "light", "aria-hidden": "true" }), this.word);
  }

  update(state, reason = "") {
    const [word, mood] = STATES[state] ?? [String(state), "over"];
    setText(this.word, word);
    setAttribute(this.element, "class", `badge ${mood}${LIVE.includes(state) ? " alive" : ""}`);
    setAttribute(this.element, "title", reason || null);
  }
}

/** A few words, one of them chosen, remembered under `name`. */
export class Choice {
  constructor(name, label, words, changed) {
    this.value = kept(name, "");
    if (!(this.value in words)) this.value = Object.keys(words)[0];
    const buttons = Object.entries(words).map(([value, word]) => h("label", {},
      h("input", {
        type: "radio", name, value, checked: value === this.value,
        onchange: () => {
          this.value = value;
          keep(name, value);
          changed(value);
        },
      }), h("span", {}, word)));
    this.element = h("fieldset", { class: "choice" }, h("legend", { class: "unseen" }, label), ...buttons);
  }
}

export function card(title, ...content) {
  return h("section", { class: "card" }, h("h2", {}, title), ...content);
}
