// All runs of the folder: their returns over each other, one chart per environment, and the list.

import { follow, read } from "./api.js";
import { Chart } from "./chart.js";
import { h, Keyed, setAttribute, setText } from "./dom.js";
import { ago, clock, level, score, short, UNKNOWN } from "./format.js";
import { Badge, Choice, LIVE } from "./parts.js";
import { Columns, known, together } from "./series.js";

const EVERY_MS = 1000, MOST_DRAWN = 40;

export class ListView {
  constructor(connection) {
    this.runs = [];
    this.curves = new Map(); // id -> Columns
    this.left = new Set(); // ids of runs that the user took out of the charts
    this.charts = new Map(); // env -> Chart
    this.drawn = "";
    this.kind = new Choice("x", "Axis", { wall_s: "Time", env_steps: "Env steps" }, () => this.draw());
    this.lines = new Choice("lines", "Lines", { together: "Seeds together", each: "Each run" }, () => this.draw());
    this.filter = h("input", { type: "search", placeholder: "Filter: name, environment, algorithm", "aria-label": "Filter runs", oninput: () => this.show() });
    this.count = h("p", { class: "count" }, "Looking for runs");
    this.all = h("input", { type: "checkbox", "aria-label": "Draw all", onchange: () => this.drawAll(this.all.checked) });
    this.body = h("tbody");
    this.rows = new Keyed(this.body, (run) => this.makeRow(run));
    this.chartsHome = h("div", { class: "charts" });
    this.table = h("div", { class: "scroll" }, h("table", { class: "runs" },
      h("caption", { class: "unseen" }, "Runs"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, this.all),
        ...["State", "Run", "Environment", "Algorithm", "Seed", "Time", "Env steps", "Steps/s", "Return", "Best", "Started"]
          .map((name, place) => h("th", { scope: "col", class: place > 3 ? "number" : null }, name)))),
      this.body));
    this.none = h("div", { class: "card nothing", hidden: true },
      h("h2", {}, "No runs here yet"),
      h("p", {}, "The first one appears by itself when it starts:"),
      h("pre", {}, "spreeze train HalfCheetah-v5"));
    this.element = h("div", { class: "view list" },
      h("div", { class: "head" }, h("div", {}, h("h1", {}, "Runs"), this.count), h("div", { class: "tools" }, this.lines.element, this.kind.element)),
      this.none, this.chartsHome, h("div", { class: "card", id: "runs-card" }, h("div", { class: "head" }, h("h2", {}, "All runs"), this.filter), this.table));
    this.end = follow((signal) => this.step(signal), EVERY_MS, connection);
    document.title = "Spreeze";
  }

  close() {
    this.end();
    for (const chart of this.charts.values()) chart.close();
  }

  async step(signal) {
    const { folder, runs } = await read("/api/runs", { signal });
    setText(document.getElementById("folder"), folder);
    this.runs = runs;
    this.show();
    const wanted = runs.filter((run) => this.isDrawn(run)).slice(0, MOST_DRAWN);
    for (const id of this.curves.keys()) if (!wanted.some((run) => run.id === id)) this.curves.delete(id);
    if (!wanted.length) {
      this.draw();
      return false;
    }
    const query = wanted.map(({ id }) => `run=${id}:${this.curves.get(id)?.cursor ?? ""}`).join("&");
    const answers = await read(`/api/returns?${query}`, { signal });
    for (const answer of answers) {
      if (!this.curves.has(answer.id)) this.curves.set(answer.id, new Columns());
      this.curves.get(answer.id).take(answer);
    }
    this.show();
    this.draw();
    return answers.some(({ complete }) => !complete);
  }

  matching() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    return this.runs.filter((run) => words.every((word) => `${run.name} ${run.env} ${run.algo} ${run.state}`.toLowerCase().includes(word)));
  }

  isDrawn(run) {
    return !this.left.has(run.id);
  }

  drawAll(wanted) {
    for (const run of this.matching()) this.left[wanted ? "delete" : "add"](run.id);
    this.show();
    this.draw();
  }

  show() {
    const runs = this.matching(), live = this.runs.filter(({ state }) => LIVE.includes(state)).length;
    setText(this.count, this.runs.length ? `${this.runs.length} in this folder, ${live || "none"} training now` : "");
    this.none.hidden = this.runs.length > 0;
    this.element.querySelector("#runs-card").hidden = !this.runs.length;
    this.colors();
    this.rows.update(runs, ({ id }) => id);
    const drawn = runs.filter((run) => this.isDrawn(run)).length;
    this.all.checked = drawn > 0;
    this.all.indeterminate = drawn > 0 && drawn < runs.length;
  }

  /** Of each run: its own in "each run", that of its group in "together"; within one environment they differ. */
  colors() {
    this.color = new Map();
    const seen = new Map();
    for (const run of [...this.runs].reverse()) {
      const keys = seen.get(run.env) ?? seen.set(run.env, new Map()).get(run.env);
      const key = this.lines.value === "together" ? run.algo : run.id;
      if (!keys.has(key)) keys.set(key, keys.size);
      this.color.set(run.id, keys.get(key));
    }
  }

  makeRow(run) {
    const badge = new Badge();
    const box = h("input", {
      type: "checkbox", "aria-label": `Draw ${run.name}`, onchange: () => {
        this.left[box.checked ? "delete" : "add"](run.id);
        this.show();
        this.draw();
      },
    });
    const swatch = h("span", { class: "key" });
    const name = h("a", { href: `#/run/${run.id}` });
    const cells = Object.fromEntries(["env", "algo", "seed", "time", "steps", "rate", "now", "best", "started"].map((key) => [key, h("td", { "data-name": key })]));
    for (const key of ["seed", "time", "steps", "rate", "now", "best", "started"]) cells[key].className = "number";
    const element = h("tr", {}, h("td", { class: "pick" }, box, swatch), h("td", { class: "state" }, badge.element),
      h("th", { scope: "row" }, name), ...Object.values(cells));
    const update = (run) => {
      box.checked = this.isDrawn(run);
      setAttribute(swatch, "class", `key s${this.color.get(run.id) % 8}`);
      badge.update(run.state, run.reason);
      setText(name, run.name);
      setAttribute(name, "title", run.name);
      const curve = this.curves.get(run.id), alive = LIVE.includes(run.state);
      setText(cells.env, run.env);
      setText(cells.algo, run.algo);
      setText(cells.seed, run.seed === null || run.seed === undefined ? UNKNOWN : String(run.seed));
      setText(cells.time, clock(run.figures.wall_s));
      setText(cells.steps, short(run.figures.env_steps));
      setText(cells.rate, alive ? short(run.figures.sample_hz) : UNKNOWN);
      setText(cells.now, score(curve?.last("return_mean") ?? run.final_return));
      setText(cells.best, score(run.best_return ?? curve?.max("return_mean")));
      setText(cells.started, ago(Math.max(0, Date.now() / 1000 - run.started_s)));
    };
    return { element, update };
  }

  draw() {
    const runs = this.runs.filter((run) => this.isDrawn(run) && this.curves.get(run.id)?.length);
    const state = JSON.stringify([this.kind.value, this.lines.value, runs.map(({ id }) => [id, this.curves.get(id).version])]);
    if (state === this.drawn) return;
    this.drawn = state;
    this.colors();
    const envs = [...new Set(runs.map(({ env }) => env))];
    for (const [env, chart] of this.charts) {
      if (envs.includes(env)) continue;
      chart.close();
      chart.element.remove();
      this.charts.delete(env);
    }
    envs.forEach((env, place) => {
      if (!this.charts.has(env)) {
        const chart = new Chart({ title: env, unit: "mean return of evaluations", format: score, axis: level, height: 260, heading: "h2" });
        chart.element.classList.add("card");
        this.charts.set(env, chart);
      }
      const home = this.chartsHome, { element } = this.charts.get(env);
      if (home.children[place] !== element) home.insertBefore(element, home.children[place] ?? null);
      const mine = runs.filter((run) => run.env === env);
      const targets = [...new Set(mine.map(({ target }) => target).filter(Number.isFinite))].slice(0, 3);
      this.charts.get(env).draw({
        kind: this.kind.value,
        series: this.lines.value === "together" ? this.groups(mine) : mine.map((run) => this.single(run)).reverse(),
        limits: targets.map((value) => ({ name: "target", value })),
      });
    });
  }

  single(run) {
    const { points } = this.curves.get(run.id);
    return { name: run.name, color: this.color.get(run.id), ...known(points, this.kind.value, "return_mean") };
  }

  groups(runs) {
    const algos = [...new Set([...runs].reverse().map(({ algo }) => algo))];
    return algos.map((algo) => {
      const mine = runs.filter((run) => run.algo === algo);
      const color = this.color.get(mine[0].id);
      if (mine.length === 1) {
        const { points } = this.curves.get(mine[0].id);
        const spread = (sign) => (place) => points.return_mean[place] + sign * (points.return_std[place] ?? 0);
        return { name: algo, note: `1 run ± its episodes`, color, ...known(points, this.kind.value, "return_mean", spread(-1), spread(1)) };
      }
      const curves = mine.map((run) => known(this.curves.get(run.id).points, this.kind.value, "return_mean"));
      return { name: algo, note: `${mine.length} runs, mean ± their spread`, color, ...together(curves) };
    });
  }
}

