// Where the ticks of an axis stand, and what they are called. Pure.

import { short } from "./format.js";

const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Steps of 1, 2, 2.5 or 5 times a power of ten. */
export function ticks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  return between(low, high, [1, 2, 2.5, 5, 10].map((n) => n * power).find((step) => step >= rough * 0.999));
}

/** The same for what is counted. */
export const wholeTicks = (low, high, most) => ticks(low, high, most).filter(Number.isInteger);

/** The same for bytes, in round numbers of KiB, MiB or GiB. */
export function byteTicks(low, high, most) {
  const unit = [2 ** 40, 2 ** 30, 2 ** 20, 2 ** 10, 1].find((size) => high - low >= size) ?? 1;
  return ticks(low / unit, high / unit, most).map((value) => value * unit);
}

/** Steps that people count time in. */
export function timeTicks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  const step = SECONDS.find((step) => step >= rough) ?? Math.ceil(rough / 86400) * 86400;
  return between(low, high, step);
}

function between(low, high, step) {
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9 && found.length < 100; n++) found.push(n * step + 0); // no minus zero
  return found;
}

export function timeName(seconds, step) {
  if (seconds === 0) return "0";
  if (step >= 3600 || (seconds >= 3600 && seconds % 3600 === 0)) return `${+(seconds / 3600).toFixed(2)} h`;
  if (step >= 60 || seconds % 60 === 0) {
    const hours = Math.floor(seconds / 3600), minutes = Math.round((seconds % 3600) / 60);
    return hours ? `${hours} h ${minutes}` : `${minutes} min`;
  }
  return seconds < 60 ? `${+seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)}:${String(Math.round(seconds % 60)).padStart(2, "0")}`;
}

export const X_KINDS = {
  wall_s: { name: "Time", ticks: timeTicks, tick: timeName, said: "time" },
  env_steps: { name: "Env steps", ticks, tick: (value) => short(value), said: "env steps" },
};

/** The range of what is drawn, with some air; from 0 for what cannot be below. */
export function range(values, fromZero) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!(low <= high)) return [0, 1];
  if (fromZero && low >= 0) return [0, high > 0 ? high * 1.08 : 1];
  const air = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low - air, high + air];
}
