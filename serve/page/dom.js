// Making elements. Whatever comes from documents goes in as text, never as markup.

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/**
 * An element with properties and children. Strings become text nodes, and null is left out.
 * `on...` are listeners, `class` and names with a dash are attributes, all else is set as it is.
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class" || name.includes("-")) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Text that screen readers alone read. */
export const unseen = (text) => make("span", { class: "unseen" }, text);

/** Tells screen readers something, without moving anything. */
export function say(text) {
  byId("said").textContent = text;
}

/** 1 passage, 2 passages. */
export const count = (number, noun) =>
  `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** A score with about three digits that say something. */
export function short(number) {
  const size = Math.abs(number);
  return number.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4);
}

/** The name by which a reader knows a document. */
export function nameOf(document) {
  return document.title || document.uri.split("/").pop() || document.uri;
}

/** "page 3", "pages 3 to 4", or null. */
export function pagesOf(pages) {
  if (!pages || !pages.length) return null;
  const [first, last] = [pages[0], pages[pages.length - 1]];
  return first === last ? `page ${first}` : `pages ${first} to ${last}`;
}
