// Elements from names and texts. Text from elsewhere becomes text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

/** h("button", {class: "quiet", onclick: f, "aria-label": "x"}, "text", child) */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Writes only what changed: a screen reader and a selection stay undisturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Rows of a table or list by key: kept, made and removed as the data says, in its order. */
export class Keyed {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make; // (item) -> {element, update(item)}
    this.shown = new Map();
  }

  update(items, keyOf) {
    const keys = new Set(items.map(keyOf));
    for (const [key, entry] of this.shown) {
      if (keys.has(key)) continue;
      entry.element.remove();
      this.shown.delete(key);
    }
    items.forEach((item, place) => {
      const key = keyOf(item);
      if (!this.shown.has(key)) this.shown.set(key, this.make(item));
      const { element, update } = this.shown.get(key);
      if (this.parent.children[place] !== element) this.parent.insertBefore(element, this.parent.children[place] ?? null);
      update(item);
    });
  }
}
