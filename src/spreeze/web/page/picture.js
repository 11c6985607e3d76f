// The live picture: each frame is asked for when the last one is shown, and the server answers when there is a new one.

import { ask } from "./api.js";
import { h, setAttribute, setText } from "./dom.js";
import { isNumber, score, short } from "./format.js";

const PAUSE_MS = 500;

export class Picture {
  constructor(runId) {
    this.path = `/api/runs/${runId}/frame`;
    this.canvas = h("canvas", { role: "img", "aria-label": "the policy, live", hidden: true });
    this.words = h("p", { class: "caption" });
    this.empty = h("p", { class: "empty" });
    this.element = h("div", { class: "picture" }, h("div", { class: "screen" }, this.canvas, this.empty), this.words);
    this.stamp = 0;
    this.seen = true;
    this.watcher = new IntersectionObserver(([entry]) => (this.seen = entry.isIntersecting));
    this.watcher.observe(this.element);
    this.ending = new AbortController();
    this.run();
  }

  close() {
    this.ending.abort();
    this.watcher.disconnect();
  }

  update({ drawn, stamp, state }, alive) {
    this.drawn = drawn;
    this.latest = stamp;
    this.element.classList.toggle("stale", !drawn);
    setText(this.empty, stamp ? "" : alive ? "No picture yet. Start it, and the policy of this moment plays here." : "No picture was drawn of this run.");
    setText(this.words, this.describe(drawn, stamp, state));
    setAttribute(this.canvas, "aria-label", `The policy in ${state?.env ?? "its environment"}: ${this.words.textContent}`);
  }

  describe(drawn, stamp, state) {
    if (!stamp || !state) return "";
    if (!drawn) return state.state === "failed" ? `It failed: ${state.reason ?? ""}` : "The last picture; nobody draws now";
    return [
      isNumber(state.weights_version) ? `weights ${state.weights_version}` : "",
      isNumber(state.episode) ? `episode ${state.episode}` : "",
      isNumber(state.episode_return) ? `return ${score(state.episode_return)}` : "",
      isNumber(state.last_return) ? `last ${score(state.last_return)}` : "",
      isNumber(state.frames_hz) ? `${short(state.frames_hz)} frames/s` : "",
      isNumber(state.speed) && state.speed < 0.95 ? `${Math.round(state.speed * 100)} % speed` : "",
    ].filter(Boolean).join(" · ");
  }

  async run() {
    while (!this.ending.signal.aborted) {
      try {
        const wanted = this.seen && !document.hidden && (this.drawn || this.latest !== this.stamp) && this.latest;
        if (!wanted || !(await this.next())) await new Promise((resolve) => setTimeout(resolve, wanted ? 50 : PAUSE_MS));
      } catch {
        if (!this.ending.signal.aborted) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2));
      }
    }
  }

  async next() {
    const answer = await ask(`${this.path}?after=${this.stamp}`, { signal: this.ending.signal });
    if (answer.status === 204) return false;
    const image = await createImageBitmap(await answer.blob());
    this.stamp = Number(answer.headers.get("x-frame-stamp"));
    if (this.canvas.width !== image.width || this.canvas.height !== image.height) {
      this.canvas.width = image.width;
      this.canvas.height = image.height;
    }
    this.canvas.getContext("2d").drawImage(image, 0, 0);
    image.close();
    this.canvas.hidden = false;
    this.canvas.dataset.stamp = this.stamp;
    return true;
  }
}
