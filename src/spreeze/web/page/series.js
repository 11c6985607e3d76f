// Columns that grow by the server's increments, and seeds that become one curve. Pure.

import { isNumber } from "./format.js";

/** What the server's `since` gives (web/thinning.py), put behind what is there. */
export class Columns {
  constructor() {
    this.cursor = "";
    this.points = {};
    this.version = 0; // of what is drawn
  }

  take({ cursor, keep, points }) {
    let changed = false;
    for (const [name, values] of Object.entries(points)) {
      const before = this.points[name] ?? [];
      if (before.length === keep + values.length && values.every((value, place) => value === before[keep + place])) continue;
      this.points[name] = keep ? before.slice(0, keep).concat(values) : values;
      changed = true;
    }
    if (changed) this.version++;
    this.cursor = cursor;
  }

  get length() {
    return this.points.wall_s?.length ?? 0;
  }

  last(name) {
    const values = this.points[name] ?? [];
    for (let place = values.length - 1; place >= 0; place--) if (values[place] !== null) return values[place];
    return null;
  }

  max(name) {
    return (this.points[name] ?? []).reduce((most, value) => (value !== null && (most === null || value > most) ? value : most), null);
  }
}

const GRID = 240;

/** Mean and spread over seeds, where at least half of them have got to. */
export function together(curves) {
  const usable = curves.filter(({ x }) => x.length > 0);
  if (!usable.length) return { x: [], y: [], low: [], high: [] };
  const start = Math.min(...usable.map(({ x }) => x[0]));
  const end = Math.max(...usable.map(({ x }) => x[x.length - 1]));
  const made = { x: [], y: [], low: [], high: [] };
  const places = usable.map(() => 0);
  for (let step = 0; step <= GRID; step++) {
    const at = start + ((end - start) * step) / GRID;
    const values = usable.map((curve, index) => valueAt(curve, at, places, index)).filter(isNumber);
    if (values.length < usable.length / 2) continue;
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
    made.x.push(at);
    made.y.push(mean);
    made.low.push(mean - spread);
    made.high.push(mean + spread);
    if (end === start) break;
  }
  return made;
}

function valueAt({ x, y }, at, places, index) {
  if (at < x[0] || at > x[x.length - 1] * (1 + 1e-9)) return null;
  let place = places[index];
  while (place + 1 < x.length - 1 && x[place + 1] < at) place++;
  places[index] = place;
  if (x.length === 1) return y[0];
  const share = x[place + 1] > x[place] ? (at - x[place]) / (x[place + 1] - x[place]) : 1;
  return y[place] + (y[place + 1] - y[place]) * Math.min(1, Math.max(0, share));
}

/** Without the points that have no value. */
export function known(points, xName, yName, lowOf, highOf) {
  const made = { x: [], y: [], low: [], high: [] };
  const xs = points[xName] ?? [], ys = points[yName] ?? [];
  for (let place = 0; place < xs.length; place++) {
    if (!isNumber(xs[place]) || !isNumber(ys[place])) continue;
    made.x.push(xs[place]);
    made.y.push(ys[place]);
    if (lowOf) made.low.push(lowOf(place) ?? ys[place]);
    if (highOf) made.high.push(highOf(place) ?? ys[place]);
  }
  return made;
}
