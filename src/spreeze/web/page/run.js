// One run: how well it does, how fast, why so; its roles and events; the picture; the buttons.

import { act, dialog, follow, read, say } from "./api.js";
import { Chart } from "./chart.js";
import { h, Keyed, setAttribute, setText } from "./dom.js";
import { ago, bytes, clock, level, milliseconds, percent, plain, score, short, UNKNOWN, whole } from "./format.js";
import { Badge, card, Choice, LIVE } from "./parts.js";
import { Picture } from "./picture.js";
import { byteTicks, wholeTicks } from "./scale.js";
import { Columns, known } from "./series.js";

const EVERY_MS = 1000, EVENTS_SHOWN = 400;
const TICKS = new Map([[bytes, byteTicks], [whole, wholeTicks]]);
const PEAKS = ["cpu_pct", "rss_bytes", "gpu_pct", "gpu_bytes"];
const ROLE_MOODS = { ok: "good", starting: "busy", restarting: "warn", silent: "warn", parked: "over", stopping: "busy", ended: "over", dead: "bad" };
const EVENT_MOODS = { warning: "warn", restart: "warn", trouble: "warn", failure: "bad", error: "bad", checkpoint: "good", recovery: "good" };

export class RunView {
  constructor(id, connection) {
    this.id = id;
    this.metrics = new Columns();
    this.evaluations = new Columns();
    this.eventNumber = 0;
    this.badge = new Badge();
    this.title = h("h1");
    this.subtitle = h("p", { class: "count" });
    this.reason = h("p", { class: "reason", hidden: true });
    this.buttons = this.makeButtons();
    this.tiles = new Tiles();
    this.picture = new Picture(id);
    this.kind = new Choice("x", "Axis", { wall_s: "Time", env_steps: "Env steps" }, () => this.draw(true));
    this.charts = makeCharts();
    this.roles = new Roles();
    this.events = new Events();
    this.videos = new Videos();
    this.choices = h("div", { class: "documents" });
    this.reading = h("p", { class: "reading", role: "status" }, "Reading this run's figures");
    const group = (title, names) => card(title, h("div", { class: "small-charts" }, names.map((name) => this.charts[name].element)));
    this.losses = group("Learning", ["critic_loss", "actor_loss", "q_mean", "temperature", "entropy"]);
    this.element = h("div", { class: "view run" },
      h("nav", { "aria-label": "Back" }, h("a", { href: "#/" }, "← All runs")),
      h("div", { class: "head" }, h("div", {}, h("div", { class: "title" }, this.title, this.badge.element), this.subtitle, this.reason), this.buttons.element),
      this.reading, this.tiles.element,
      h("div", { class: "front" },
        h("section", { class: "card return" }, h("div", { class: "head" }, h("h2", {}, "Return"), this.kind.element), this.charts.return.element),
        h("section", { class: "card" }, h("h2", {}, "Live picture"), this.picture.element)),
      group("Speed", ["sample_hz", "update_hz", "update_frames_hz", "replay_ratio", "samplers", "batch_size"]),
      group("Freshness", ["transfer_age_ms", "weights_age_ms", "staleness_updates"]),
      group("Machine", ["cpu_pct", "rss_bytes", "gpu_pct", "gpu_bytes"]),
      this.losses,
      h("div", { class: "front even" }, card("Roles", this.roles.element), card("Events", this.events.element)),
      this.videos.element, this.choices);
    this.documents = null;
    this.end = follow((signal) => this.step(signal), EVERY_MS, connection);
  }

  close() {
    this.end();
    this.picture.close();
    for (const chart of Object.values(this.charts)) chart.close();
  }

  async step(signal) {
    const query = new URLSearchParams({ metrics: this.metrics.cursor, evaluations: this.evaluations.cursor, events: this.eventNumber });
    let found;
    try {
      found = await read(`/api/runs/${this.id}?${query}`, { signal });
    } catch (error) {
      if (error.status !== 404) throw error;
      setText(this.reading, "This run's folder is not there any more.");
      this.reading.hidden = false;
      return false;
    }
    this.metrics.take(found.metrics);
    this.evaluations.take(found.evaluations);
    if (found.events.length) this.eventNumber = found.events[found.events.length - 1].number;
    this.reading.hidden = found.complete;
    this.found = found;
    this.show(found);
    this.draw(false);
    if (!this.documents || this.documentsState !== found.run.state) {
      this.documents = await read(`/api/runs/${this.id}/documents`, { signal });
      this.documentsState = found.run.state;
      this.choices.replaceChildren(...documentCards(this.documents));
      this.draw(true);
    }
    return !found.complete;
  }

  show({ run, latest, evaluation, roles, events, live, videos, best_return }) {
    const alive = LIVE.includes(run.state);
    setText(this.title, run.env);
    document.title = `${run.env} · ${run.algo} · Spreeze`;
    setText(document.getElementById("folder"), run.name);
    const facts = [run.algo, `seed ${plain(run.seed)}`, run.device, run.name, `started ${ago(Math.max(0, Date.now() / 1000 - run.started_s))}`];
    setText(this.subtitle, facts.filter(Boolean).join(" · "));
    this.badge.update(run.state, run.reason);
    setText(this.reason, run.reason ?? "");
    this.reason.hidden = !run.reason;
    setAttribute(this.reason, "class", `reason ${run.state === "failed" ? "bad" : run.state === "silent" ? "warn" : ""}`);
    this.buttons.update(this, run, live);
    this.tiles.update(run, latest, evaluation, best_return, alive);
    this.picture.update(live, alive);
    this.roles.update(roles);
    this.events.add(events);
    this.videos.update(videos);
  }

  draw(always) {
    const complete = this.found?.complete ?? true;
    const state = `${this.metrics.version}.${this.evaluations.version}.${complete}`;
    if (!always && state === this.drawn) return;
    this.drawn = state;
    const kind = this.kind.value, { points } = this.metrics, evaluated = this.evaluations.points;
    const config = this.documents?.config ?? {}, machine = this.documents?.machine ?? {};
    const spread = (sign) => (place) => evaluated.return_mean[place] + sign * (evaluated.return_std[place] ?? 0);
    this.charts.return.draw({
      kind,
      series: [
        { name: "training episodes, with exploration", color: 1, faint: true, ...known(points, kind, "episode_return_mean") },
        { name: "evaluation, mean ± standard deviation", color: 0, ...known(evaluated, kind, "return_mean", spread(-1), spread(1)) },
      ],
      limits: [{ name: "target", value: config.until_return ?? NaN }],
    });
    if (!complete) return; // a long run is still being read: the rest is drawn once, when it is there
    const steady = this.found?.run.steady ?? {};
    const over = !LIVE.includes(this.found?.run.state);
    const now = (name) => { // the last second of a run that is over says little
      if (over && name in steady) return this.charts[name].format(steady[name]);
      if (over && PEAKS.includes(name)) return `peak ${this.charts[name].format(this.metrics.max(name))}`;
      return this.charts[name].format(this.metrics.last(name));
    };
    const one = (name, options = {}) => this.charts[name].draw({
      kind,
      series: [{ name: this.charts[name].title, color: options.color ?? 0, ...known(points, kind, name) }, ...(options.limitSeries ?? [])],
      limits: options.limits ?? [], now: now(name),
    });
    const fastest = (name) => [{ name: "fastest so far", value: this.metrics.max(name) ?? NaN }];
    const raw = { name: "raw: the environments alone", brief: "raw", limit: true, ...known(points, kind, "raw_hz") };
    if (raw.x.length) one("sample_hz", { limitSeries: [raw] });
    else one("sample_hz", { limits: fastest("sample_hz") }); // an older run, or an engine whose own rate is not known
    one("update_hz", { limits: fastest("update_hz"), color: 2 });
    one("update_frames_hz", { limits: fastest("update_frames_hz"), color: 2 });
    one("replay_ratio", { limits: [{ name: "asked for", value: Number(config.replay_ratio) }], color: 7 });
    one("samplers", { color: 3 });
    one("batch_size", { color: 3 });
    for (const name of ["transfer_age_ms", "weights_age_ms", "staleness_updates"]) {
      this.charts[name].draw({
        kind,
        series: [{ name: "median", color: 0, ...known(points, kind, `${name}_p50`) }, { name: "95 %", color: 1, ...known(points, kind, `${name}_p95`) }],
        now: this.charts[name].format(this.metrics.last(`${name}_p50`)),
      });
    }
    one("cpu_pct", { color: 5, limits: [{ name: "all cores", value: 100 * (machine.cores ?? NaN) }] });
    one("rss_bytes", { color: 5, limits: memoryLimits(config) });
    one("gpu_pct", { color: 4, limits: this.metrics.last("gpu_pct") === null ? [] : [{ name: "all of it", value: 100 }] });
    one("gpu_bytes", { color: 4 });
    for (const name of ["gpu_pct", "gpu_bytes"]) this.charts[name].element.hidden = this.metrics.last(name) === null;
    const losses = ["critic_loss", "actor_loss", "q_mean", "temperature", "entropy"];
    for (const name of losses) {
      one(name, { color: 7 });
      this.charts[name].element.hidden = this.metrics.last(name) === null;
    }
    this.losses.hidden = losses.every((name) => this.metrics.last(name) === null);
  }

  makeButtons() {
    const send = (what, done) => async () => {
      try {
        if (await act(`/api/runs/${this.id}/ask`, { what })) say(done);
      } catch (error) {
        say(error.message, "bad");
      }
    };
    const save = h("button", { type: "button", onclick: send("checkpoint", "A checkpoint was asked for; it shows among the events.") }, "Save a checkpoint");
    const picture = h("button", { type: "button", onclick: () => send(this.pictureOn ? "picture-off" : "picture-on", this.pictureOn ? "The picture stops." : "The picture starts in some seconds.")() }, "Start the picture");
    const stopWell = send("stop", "It was asked to stop; it saves first.");
    const stop = h("button", {
      type: "button", class: "danger",
      onclick: async () => {
        const sure = await dialog("Stop this run?", [h("p", {}, "It saves, stops all of its processes and ends well.")], "Stop it");
        if (sure) await stopWell();
      },
    }, "Stop");
    const element = h("div", { class: "buttons", role: "group", "aria-label": "What can be asked of this run" }, save, picture, stop);
    const update = (view, run, live) => {
      view.pictureOn = live.drawn;
      setText(picture, live.drawn ? "Stop the picture" : "Start the picture");
      element.hidden = !LIVE.includes(run.state);
    };
    return { element, update };
  }
}

function memoryLimits(config) {
  const place = (config.plan?.places ?? []).find(({ name }) => name === "memory");
  return place ? [{ name: "planned", value: place.needed_bytes }] : [];
}

function makeCharts() {
  const small = (title, unit, format, fromZero = true, legend = true) => new Chart({
    title, unit, format, fromZero, height: 150, legend, ticks: TICKS.get(format),
  });
  return {
    return: new Chart({ title: "Mean return", unit: "of an episode", format: score, axis: level, height: 300 }),
    sample_hz: small("Sampling", "env steps/s", short),
    update_hz: small("Updates", "updates/s", short),
    update_frames_hz: small("Update frames", "frames/s", short),
    replay_ratio: small("Replay ratio", "frames/step", short),
    samplers: small("Samplers", "at work", whole, true, false),
    batch_size: small("Batch", "rows an update draws", whole, true, false),
    transfer_age_ms: small("Row age", "from step to replay", milliseconds),
    weights_age_ms: small("Weights age", "of acting weights", milliseconds),
    staleness_updates: small("Staleness", "updates behind", short),
    cpu_pct: small("CPU", "100 % is a core", percent),
    rss_bytes: small("Memory", "all processes", bytes),
    gpu_pct: small("GPU", "busy", percent),
    gpu_bytes: small("GPU memory", "", bytes),
    critic_loss: small("Critic loss", "", short, true, false),
    actor_loss: small("Actor loss", "", short, false, false),
    q_mean: small("Q", "mean over the batch", short, false, false),
    temperature: small("Temperature", "", short, true, false),
    entropy: small("Entropy", "of the policy", short, false, false),
  };
}

class Tiles {
  constructor() {
    this.shown = {};
    this.element = h("dl", { class: "tiles" }, Object.entries({
      now: "Return", best: "Best", time: "Time", steps: "Env steps", sampling: "Sampling", updates: "Updates", updating: "Updating", ratio: "Replay ratio",
    }).map(([key, name]) => {
      const value = h("span", { class: "value" }, UNKNOWN), unit = h("span", { class: "unit" });
      this.shown[key] = { value, unit };
      return h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value, unit));
    }));
  }

  update(run, latest, evaluation, best, alive) {
    const put = (key, value, unit = "") => {
      setText(this.shown[key].value, value);
      setText(this.shown[key].unit, unit);
    };
    put("now", score(evaluation?.return_mean), Number.isFinite(evaluation?.return_std) ? `± ${score(evaluation.return_std)}` : "");
    put("best", score(best ?? run.best_return), Number.isFinite(run.target) ? `target ${score(run.target)}` : "");
    put("time", clock(latest.wall_s), alive ? "and counting" : "");
    put("steps", short(latest.env_steps));
    put("updates", short(latest.updates), Number.isFinite(latest.batch_size) ? `of ${whole(latest.batch_size)} rows` : "");
    const rates = alive ? latest : { ...latest, ...run.steady }; // the last second of a run that stopped says little
    put("sampling", short(rates.sample_hz), "env steps/s");
    put("updating", short(rates.update_hz), "updates/s");
    put("ratio", short(rates.replay_ratio), "frames/step");
  }
}

class Roles {
  constructor() {
    this.body = h("tbody");
    this.rows = new Keyed(this.body, () => this.makeRow());
    this.empty = h("p", { class: "empty" }, "No roles seen yet");
    this.element = h("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": "Roles" }, this.empty, h("table", { class: "roles" },
      h("thead", {}, h("tr", {}, ["Role", "Health", "Restarts", "Last event"].map((name) => h("th", { scope: "col", class: name === "Restarts" ? "number" : null }, name)))),
      this.body));
  }

  makeRow() {
    const name = h("th", { scope: "row" }), health = h("span"), restarts = h("td", { class: "number" }), event = h("td", { class: "event" });
    const badge = h("span", { class: "badge" }, h("span", { class: "light", "aria-hidden": "true" }), health);
    const update = (role) => {
      setText(name, role.name);
      setText(health, role.state === null || role.state === undefined ? "not told" : plain(role.state));
      setAttribute(badge, "class", `badge ${ROLE_MOODS[role.state] ?? "over"}`);
      setText(restarts, plain(role.restarts));
      setAttribute(restarts, "class", `number ${role.restarts > 0 ? "warn" : ""}`);
      setText(event, role.event ? `${clock(role.event.wall_s)}  ${plain(role.event.kind)}: ${plain(role.event.reason)}` : UNKNOWN);
    };
    return { element: h("tr", {}, name, h("td", {}, badge), restarts, event), update };
  }

  update(roles) {
    this.empty.hidden = roles.length > 0;
    this.rows.update(roles, ({ name }) => name);
  }
}

class Events {
  constructor() {
    this.list = h("ol", { class: "events" });
    this.empty = h("p", { class: "empty" }, "Nothing happened yet");
    this.element = h("div", { class: "scroll tall", tabindex: "0", role: "log", "aria-label": "Events, newest first" }, this.empty, this.list);
  }

  add(events) {
    for (const event of events) {
      this.list.prepend(h("li", {},
        h("time", {}, clock(event.wall_s)),
        h("span", { class: `kind ${EVENT_MOODS[event.kind] ?? ""}` }, plain(event.kind)),
        h("span", { class: "what" }, event.role ? h("b", {}, `${plain(event.role)} `) : null, plain(event.reason))));
    }
    while (this.list.children.length > EVENTS_SHOWN) this.list.lastElementChild.remove();
    this.empty.hidden = this.list.children.length > 0;
  }
}

class Videos {
  constructor() {
    this.home = h("div", { class: "videos" });
    this.element = card("Videos", this.home);
    this.element.hidden = true;
    this.items = new Keyed(this.home, (video) => this.make(video));
  }

  make(video) {
    const words = h("figcaption");
    const shown = video.kind === "image/gif"
      ? h("img", { src: video.url, alt: video.name, loading: "lazy" })
      : h("video", { src: video.url, controls: true, preload: "metadata", muted: true, playsinline: true, "aria-label": video.name });
    const update = (video) => setText(words, `${video.name} · ${bytes(video.bytes)} · ${ago(Math.max(0, Date.now() / 1000 - video.at_s))}`);
    return { element: h("figure", {}, shown, words), update };
  }

  update(videos) {
    this.element.hidden = !videos.length;
    this.items.update(videos, ({ id }) => id);
  }
}

function documentCards({ config, machine, summary }) {
  const cards = [];
  if (config?.auto && Object.keys(config.auto).length) cards.push(card("Chosen automatically, and why", rows(["Setting", "Became", "Why"],
    Object.entries(config.auto).map(([name, choice]) => [name, value(name, choice?.value), plain(choice?.reason)]))));
  if (config?.adjusted && Object.keys(config.adjusted).length) cards.push(card("Changed to fit this machine", rows(["Setting", "Asked", "Became", "Why"],
    Object.entries(config.adjusted).map(([name, change]) => [name, value(name, change?.asked), value(name, change?.value), plain(change?.reason)]))));
  if (Array.isArray(config?.plan?.places)) cards.push(planCard(config.plan));
  const folded = (title, document, left) => {
    const names = Object.entries(document ?? {}).filter(([name]) => !left.includes(name));
    if (names.length) cards.push(h("details", { class: "card" }, h("summary", {}, title), rows(["Name", "Value"], names.map(([name, one]) => [name, value(name, one)]))));
  };
  folded("All settings", config, ["auto", "adjusted", "plan"]);
  folded("Machine", machine, []);
  folded("Summary", summary, []);
  return cards;
}

function value(name, given) {
  return name.endsWith("_bytes") || name === "sampler_memory" ? (Number.isFinite(given) ? bytes(given) : plain(given)) : plain(given);
}

function planCard({ places, warnings }) {
  const bars = places.filter((place) => place && typeof place === "object").map((place) => {
    const share = Math.min(1, place.needed_bytes / place.free_bytes || 0);
    const needs = (Array.isArray(place.needs) ? place.needs : []).map((need) => [plain(need?.what), bytes(need?.bytes), plain(need?.of)]);
    return h("div", { class: "place" },
      h("div", { class: "head" }, h("h3", {}, plain(place.name)), h("span", { class: "unit" }, `${bytes(place.needed_bytes)} of ${bytes(place.free_bytes)} free ${plain(place.free_of)}`)),
      h("meter", { min: 0, max: 1, value: share, high: 0.8, "aria-label": `${plain(place.name)} needed` }),
      h("details", {}, h("summary", {}, "What needs it"), rows(["What", "Bytes", "Of"], needs)));
  });
  const said = (Array.isArray(warnings) ? warnings : []).map((warning) => h("p", { class: "warn" }, plain(warning)));
  return card("Memory plan", h("div", { class: "places" }, bars), ...said);
}

function rows(heads, lines) {
  return h("div", { class: "scroll" }, h("table", { class: "facts" },
    h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, lines.map(([first, ...rest]) => h("tr", {}, h("th", { scope: "row" }, first), rest.map((cell) => h("td", {}, cell)))))));
}
