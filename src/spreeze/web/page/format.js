// Figures as people read them. What is not known is a dash.

export const UNKNOWN = "–";
const SIZES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function digits(value) {
  const size = Math.abs(value);
  return size >= 100 || value === 0 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toPrecision(3);
}

function trimmed(text) {
  return text.includes("e") || !text.includes(".") ? text : text.replace(/\.?0+$/, "");
}

const minus = (text) => text.replace("-", "−");

/** 51234 -> '51.2 k' */
export function short(value, unit = "") {
  if (!isNumber(value)) return UNKNOWN;
  const [size, letter] = SIZES.find(([size]) => Math.abs(value) >= size * 0.99995) ?? [1, ""];
  const text = minus(trimmed(digits(value / size)));
  return [text, letter + unit].filter(Boolean).join(" ");
}

/** A return on an axis: 'minus 1,500', with decimals only where it has some. */
export const level = (value) => (!isNumber(value) || Math.abs(value) >= 1e7 ? short(value)
  : minus((+value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 4 })));

/** 1234567 -> '1,234,567' */
export const whole = (value) => (isNumber(value) ? minus(Math.round(value).toLocaleString("en")) : UNKNOWN);

/** A return: one decimal where it is small enough to matter. */
export function score(value) {
  if (!isNumber(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size >= 1e7) return short(value);
  return minus(size >= 1000 ? Math.round(value).toLocaleString("en") : size >= 10 ? value.toFixed(1) : value.toFixed(2));
}

export function bytes(value) {
  if (!isNumber(value)) return UNKNOWN;
  const [size, name] = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]
    .find(([size]) => Math.abs(value) >= size) ?? [1, "B"];
  return `${trimmed(digits(value / size))} ${name}`;
}

/** 3731 -> '1:02:11' */
export function clock(seconds) {
  if (!isNumber(seconds)) return UNKNOWN;
  const [s, m, hours] = [Math.floor(seconds) % 60, Math.floor(seconds / 60) % 60, Math.floor(seconds / 3600)];
  const two = (n) => String(n).padStart(2, "0");
  return hours ? `${hours}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

export function percent(value) {
  return isNumber(value) ? `${digits(value)} %` : UNKNOWN;
}

export function milliseconds(value) {
  if (!isNumber(value)) return UNKNOWN;
  return Math.abs(value) >= 1000 ? `${trimmed(digits(value / 1000))} s` : `${trimmed(digits(value))} ms`;
}

/** Whatever a document holds, as a line of text. */
export function plain(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "string") return value;
  if (isNumber(value)) return Number.isInteger(value) && Math.abs(value) >= 1e4 ? whole(value) : minus(String(value));
  return JSON.stringify(value);
}

export const ago = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s ago` : seconds < 5400
  ? `${Math.round(seconds / 60)} min ago` : seconds < 129600
    ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} days ago`);
