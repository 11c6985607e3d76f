// A chart of lines with bands and limits, as SVG: the style sheet colours it, the browser's zoom keeps it sharp.
//
//   const chart = new Chart({ title: "Sampling", unit: "env steps a second", format: short, fromZero: true });
//   chart.draw({ kind: "wall_s", series: [{ name, color: 0, x, y, low, high }], limits: [{ name, value }] });
//
// A series with `limit: true` is a limit that moves. Where it is far above what it limits, the chart keeps to the others.
// `brief`: a series' name beside the cursor, where a longer one would hide the curves.
//
// With the keyboard: Tab to it, arrows (Home, End) move the cursor; what it stands on is said aloud.

import { h, setAttribute, setText, svg } from "./dom.js";
import { UNKNOWN, clock, whole } from "./format.js";
import { X_KINDS, range, ticks as evenTicks } from "./scale.js";

const TOP = 8, RIGHT = 12, BOTTOM = 24, LETTER = 6.6;
const FAR_ABOVE = 5; // times as high: on one axis with it the others would be flat
let lastNumber = 0;

export class Chart {
  /** `format`: of a value; `axis`: of one beside a line of the grid; `ticks`: where those lines are. */
  constructor({ title, unit = "", format, axis = format, ticks = evenTicks, fromZero = false, height = 180, legend = true, heading = "h3" }) {
    Object.assign(this, { title, unit, format, axis, ticks, fromZero, height, showLegend: legend });
    const number = ++lastNumber;
    this.value = h("span", { class: "now" });
    this.plot = svg("svg", { "aria-hidden": "true", focusable: "false" });
    this.tip = h("div", { class: "tip", role: "status", "aria-live": "polite", hidden: true });
    this.legend = h("ul", { class: "legend" });
    this.empty = h("p", { class: "empty" }, "Nothing to draw yet");
    this.area = h("div", {
      class: "plot", tabindex: "0", role: "group", "aria-labelledby": `chart-${number}`, "aria-describedby": `said-${number}`,
      onpointermove: (event) => this.pointAt(event), onpointerleave: () => this.pointNowhere(),
      onkeydown: (event) => this.move(event), onblur: () => this.pointNowhere(),
    }, this.plot, this.empty, this.tip);
    this.area.style.height = `${height}px`;
    this.said = h("p", { class: "unseen", id: `said-${number}` });
    this.element = h("figure", { class: "chart" },
      h("figcaption", {}, h(heading, { id: `chart-${number}` }, title), h("span", { class: "unit" }, unit), this.value),
      this.area, this.legend, this.said);
    this.data = { kind: "wall_s", series: [], limits: [] };
    this.width = 0;
    this.observer = new ResizeObserver(([{ contentRect }]) => {
      if (Math.abs(contentRect.width - this.width) < 1) return;
      this.width = contentRect.width;
      this.paint();
    });
    this.observer.observe(this.area);
  }

  close() {
    this.observer.disconnect();
  }

  draw({ kind, series, limits = [], now = null }) {
    this.data = { kind, series: series.filter(({ x }) => x.length), limits: limits.filter(({ value }) => Number.isFinite(value)) };
    setText(this.value, now ?? "");
    this.paint();
  }

  paint() {
    if (!this.width) return;
    const { kind, series, limits } = this.data;
    this.empty.hidden = series.length > 0;
    setAttribute(this.area, "data-points", series.reduce((sum, { x }) => sum + x.length, 0));
    if (!series.length) {
      this.paintLegend();
      this.plot.replaceChildren();
      return;
    }
    const axis = X_KINDS[kind];
    const first = Math.min(0, ...series.map(({ x }) => x[0])), last = Math.max(...series.map(({ x }) => x[x.length - 1]));
    const [low, high] = this.levels(series, limits);
    this.paintLegend(high);
    const rows = this.ticks(low, high, Math.max(2, Math.round((this.height - TOP - BOTTOM) / 30)));
    const names = rows.map((value) => this.axis(value));
    const left = Math.max(...names.map((name) => name.length)) * LETTER + 10;
    const inner = { width: Math.max(10, this.width - left - RIGHT), height: this.height - TOP - BOTTOM };
    const xOf = (value) => left + ((value - first) / (last - first || 1)) * inner.width;
    const yOf = (value) => TOP + (1 - (value - low) / (high - low || 1)) * inner.height;
    this.places = { xOf, yOf, left, inner, first, last };
    const columns = axis.ticks(first, last, Math.max(2, Math.floor(inner.width / 66)));
    const step = columns.length > 1 ? columns[1] - columns[0] : last;
    setAttribute(this.plot, "viewBox", `0 0 ${this.width} ${this.height}`);
    this.cursor = svg("g", { class: "cursor", visibility: "hidden" });
    this.plot.replaceChildren(
      svg("g", { class: "grid" },
        rows.map((value) => svg("line", { x1: left, x2: left + inner.width, y1: yOf(value), y2: yOf(value) }))),
      svg("g", { class: "names" },
        rows.map((value, place) => svg("text", { x: left - 6, y: yOf(value) + 4, "text-anchor": "end" }, names[place])),
        columns.filter((value) => xOf(value) < left + inner.width - 8 || value === first).map((value) => svg("text", {
          x: xOf(value), y: this.height - 6, "text-anchor": value === first ? "start" : "middle",
        }, axis.tick(value, step)))),
      svg("g", {}, limits.map(({ value, color }) => svg("line", {
        class: `limit ${color === undefined ? "" : `s${color % 8}`}`, x1: left, x2: left + inner.width, y1: yOf(value), y2: yOf(value),
      }))),
      svg("g", {}, series.filter(({ limit }) => limit).map((one) => svg("path", { class: "limit", d: line(one.x, one.y, xOf, yOf) }))),
      svg("g", {}, series.filter(({ low }) => low?.length).map((one) => svg("path", { class: `band s${one.color % 8}`, d: band(one, xOf, yOf) }))),
      svg("g", {}, series.filter(({ limit }) => !limit).map((one) => svg("path", {
        class: `line s${one.color % 8}${one.faint ? " faint" : ""}`, d: line(one.x, one.y, xOf, yOf),
      })), series.filter(({ x }) => x.length === 1).map((one) => svg("circle", {
        class: `dot ${tint(one)}`, cx: xOf(one.x[0]), cy: yOf(one.y[0]), r: 3,
      }))),
      this.cursor,
    );
    setText(this.said, this.inWords(axis));
    if (this.pointed !== undefined) this.point(this.pointed);
  }

  levels(series, limits) {
    const values = limits.map(({ value }) => value);
    for (const { y, low = [], high = [] } of series.filter(({ limit }) => !limit)) values.push(...extremes(y), ...extremes(low), ...extremes(high));
    const most = FAR_ABOVE * Math.max(...values);
    for (const { y } of series.filter(({ limit }) => limit)) values.push(...extremes(y.filter((value) => value <= most)));
    return range(values, this.fromZero);
  }

  /** `top`: of the plot. */
  paintLegend(top) {
    const entries = this.showLegend
      ? [...this.data.series.map((one) => (one.limit
        ? { name: `${one.name} ${this.format(one.y[one.y.length - 1])}`, note: one.y[one.y.length - 1] > top ? "↑" : null, class: "key limit" }
        : { name: one.name, note: one.note, class: `key s${one.color % 8}${one.faint ? " faint" : ""}` })),
        ...this.data.limits.map(({ name, value, color }) => ({
          name: `${name} ${this.format(value)}`, class: `key limit ${color === undefined ? "" : `s${color % 8}`}`,
        }))]
      : [];
    const words = JSON.stringify(entries);
    if (words === this.legendWords) return;
    this.legendWords = words;
    this.legend.replaceChildren(...entries.map((entry) => h("li", { title: entry.name }, h("span", { class: entry.class }),
      h("span", { class: "name" }, entry.name), entry.note ? h("span", { class: "note" }, entry.note) : null)));
  }

  inWords(axis) {
    const said = this.data.series.slice(0, 6).map(({ name, y }) => `${name}: ${this.format(y[y.length - 1])}`);
    return `${this.title}, ${this.unit}, over ${axis.said}. Latest: ${said.join("; ")}. Arrow keys move a cursor.`;
  }

  pointAt(event) {
    if (!this.places || !this.data.series.length) return;
    const { left, inner, first, last } = this.places;
    const share = (event.clientX - this.area.getBoundingClientRect().left - left) / inner.width;
    this.point(first + Math.min(1, Math.max(0, share)) * (last - first));
  }

  pointNowhere() {
    this.pointed = undefined;
    this.tip.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
  }

  move(event) {
    if (!this.places || !this.data.series.length) return;
    const { first, last } = this.places;
    const step = (last - first) / (event.shiftKey ? 10 : 50), at = this.pointed ?? last;
    const to = { ArrowLeft: at - step, ArrowRight: at + step, Home: first, End: last }[event.key];
    if (event.key === "Escape") this.pointNowhere();
    if (to === undefined) return;
    event.preventDefault();
    this.point(Math.min(last, Math.max(first, to)));
  }

  /** The cursor at an x, with what each line has there. */
  point(at) {
    this.pointed = at;
    const { xOf, yOf, left, inner } = this.places;
    const found = this.data.series.map((one) => ({ ...one, place: nearest(one.x, at) })).filter(({ place }) => place !== null);
    const x = xOf(at);
    this.cursor.replaceChildren(
      svg("line", { x1: x, x2: x, y1: TOP, y2: TOP + inner.height }),
      ...found.map((one) => svg("circle", { class: `dot ${tint(one)}`, cx: xOf(one.x[one.place]), cy: yOf(one.y[one.place]), r: 3.5 })),
    );
    this.cursor.setAttribute("visibility", "visible");
    const where = this.data.kind === "wall_s" ? clock(at) : `${whole(at)} env steps`;
    this.tip.replaceChildren(h("strong", {}, where), ...found.slice(0, 12).map((one) => h("div", {},
      h("span", { class: `key ${tint(one)}` }), h("span", { class: "name" }, one.brief ?? one.name), h("b", {}, this.format(one.y[one.place]) ?? UNKNOWN))));
    this.tip.hidden = false;
    const room = this.area.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(room, x < left + inner.width / 2 ? x + 14 : x - this.tip.offsetWidth - 14))}px`;
  }
}

const tint = ({ limit, color }) => (limit ? "limit" : `s${color % 8}`);

function extremes(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [];
}

function line(x, y, xOf, yOf) {
  let d = "";
  for (let place = 0; place < x.length; place++) d += `${place ? "L" : "M"}${xOf(x[place]).toFixed(1)} ${yOf(y[place]).toFixed(1)}`;
  return d;
}

function band({ x, low, high }, xOf, yOf) {
  const back = [...x.keys()].reverse().map((place) => `L${xOf(x[place]).toFixed(1)} ${yOf(low[place]).toFixed(1)}`);
  return `${line(x, high, xOf, yOf)}${back.join("")}Z`;
}

/** The place of the point next to `at`; null where the line is not there. */
function nearest(x, at) {
  if (!x.length) return null;
  let first = 0, end = x.length - 1;
  while (first < end) {
    const middle = (first + end) >> 1;
    if (x[middle] < at) first = middle + 1;
    else end = middle;
  }
  return first > 0 && at - x[first - 1] < x[first] - at ? first - 1 : first;
}
