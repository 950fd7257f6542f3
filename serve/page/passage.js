// A passage in its document: the page of a PDF as an image, or the text with the passage marked.

import * as api from "./api.js";
import { byId, count, make, nameOf, pagesOf, unseen } from "./dom.js";

const AROUND = 1500; // characters shown before and after the passage
const MORE = 4000; // characters that each "more" adds
const MOST_PIXELS = 2000;

const path = (...parts) => parts.map(encodeURIComponent).join("/");

/** The dialog. `failed` is told of a key that is missing. */
export class Passage {
  constructor(failed) {
    this.failed = failed;
    this.dialog = byId("passage");
    this.body = byId("passage-body");
    this.views = byId("passage-views");
    byId("passage-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => this.clear());
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close(); // beside it
    });
    this.views.addEventListener("click", (event) => {
      const view = event.target.dataset.view;
      if (view) this.show(view);
    });
  }

  /** Stops what is loading and frees the image. */
  clear() {
    this.loading?.abort();
    if (this.address) URL.revokeObjectURL(this.address);
    this.address = null;
    this.body.replaceChildren();
  }

  /** Opens a chunk at `page`; `quote` is what is cited of it, and `name` that of its document. */
  async open({ chunk, page = null, quote = null, name }) {
    this.clear();
    this.loading = new AbortController();
    this.quote = quote;
    byId("passage-title").textContent = name;
    byId("passage-about").textContent = "";
    this.views.hidden = true;
    if (!this.dialog.open) this.dialog.showModal();
    byId("passage-title").focus();
    await this.attempt(async () => {
      this.chunk = await this.json(`v1/chunks/${path(chunk)}`);
      const { start, end } = this.chunk;
      this.document = await this.text(Math.max(0, start - AROUND), end + AROUND);
      this.page = page ?? this.chunk.pages?.[0] ?? null;
      const images = this.document.page_images && this.page !== null;
      this.views.hidden = !images;
      this.describe();
      await this.show(images ? "page" : "text");
    });
  }

  json(where) {
    return api.json(where, { signal: this.loading.signal });
  }

  /** The document with its text from `start` to `end`, in characters as the service counts them. */
  text(start, end) {
    return this.json(`v1/documents/${path(this.chunk.doc_id)}?start=${start}&end=${end}`);
  }

  /** Does what may fail, and says in the dialog that it did. */
  async attempt(work) {
    try {
      await work();
    } catch (error) {
      if (api.stopped(error)) return;
      if (error.status === 401) {
        this.dialog.close();
        this.failed(error);
        return;
      }
      this.body.prepend(make("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  describe() {
    const { section, uri } = this.chunk;
    const where = [pagesOf(this.chunk.pages), section].filter(Boolean).join(" · ");
    byId("passage-title").textContent = nameOf(this.document);
    byId("passage-about").replaceChildren(where, where ? make("br") : "", make("code", {}, uri));
  }

  /** Shows the "page" or the "text". */
  async show(view) {
    for (const button of this.views.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset.view === view));
    }
    if (view === "page") await this.showPage(this.page);
    else this.showText();
  }

  async showPage(number) {
    const last = this.document.pages.length;
    const picture = make("div", { class: "picture" }, make("p", { class: "quiet" }, "Loading …"));
    const go = (step, words) =>
      make(
        "button",
        { type: "button", disabled: number + step < 1 || number + step > last,
          onclick: () => this.turn(number + step) },
        words, unseen(" page"),
      );
    this.body.replaceChildren(
      this.quote ? make("blockquote", {}, this.quote) : "",
      make(
        "p", { class: "turn" },
        go(-1, "Previous"), make("span", {}, `Page ${number} of ${last}`), go(1, "Next"),
      ),
      picture,
    );
    this.body.scrollTop = 0;
    const width = Math.round(Math.min(MOST_PIXELS, this.body.clientWidth * devicePixelRatio));
    const where = `v1/documents/${path(this.chunk.doc_id)}/pages/${number}?width=${Math.max(64, width)}`;
    try {
      const address = await api.image(where, { signal: this.loading.signal });
      if (this.address) URL.revokeObjectURL(this.address);
      this.address = address;
      picture.replaceChildren(
        make("img", { src: address, alt: `Page ${number} of ${nameOf(this.document)}` }),
      );
    } catch (error) {
      if (api.stopped(error)) return;
      await this.withoutImage(error);
    }
  }

  async turn(number) {
    this.loading.abort(); // the page that is not wanted any more
    this.loading = new AbortController();
    await this.showPage(number);
    const [back, on] = this.body.querySelectorAll(".turn button");
    if (document.activeElement === document.body || document.activeElement === this.dialog) {
      (on.disabled ? back : on).focus();
    }
  }

  /** Text in place of an image that is not to be had, and why. */
  async withoutImage(error) {
    await this.show("text");
    const why = `The page cannot be shown: ${error.message}`;
    this.body.prepend(make("p", { class: "note", role: "status" }, why));
  }

  showText() {
    const { text, start, end, chars } = this.document;
    const shown = make("div", { class: "document" }, marked(text, start, this.chunk, this.quote));
    const following = `Show what follows (${count(chars, "character")} in all)`;
    this.body.replaceChildren(
      start > 0 ? this.more("Show what comes before", () => this.before(shown)) : "",
      shown,
      end < chars ? this.more(following, () => this.after(shown)) : "",
    );
    this.shown = { start, end };
    shown.querySelector("mark")?.scrollIntoView({ block: "center" });
  }

  /** A button that does `work`, which says whether there is still more of it. */
  more(words, work) {
    const press = () => this.attempt(async () => (await work()) || button.remove());
    const button = make("button", { type: "button", class: "plain", onclick: press }, words);
    return button;
  }

  async before(shown) {
    const { start } = this.shown;
    const more = await this.text(Math.max(0, start - MORE), start);
    const height = this.body.scrollHeight;
    shown.prepend(more.text);
    this.body.scrollTop += this.body.scrollHeight - height; // the reader stays where they are
    this.shown.start = more.start;
    return more.start > 0;
  }

  async after(shown) {
    const more = await this.text(this.shown.end, this.shown.end + MORE);
    shown.append(more.text);
    this.shown.end = more.end;
    return more.end < more.chars;
  }
}

/**
 * The text as nodes with the passage and what is cited of it marked. `start` is where in the
 * document the text begins: in characters, which are two units of JavaScript's strings for some.
 */
export function marked(text, start, chunk, quote) {
  const characters = Array.from(text);
  const at = (offset) => characters.slice(0, Math.max(0, offset - start)).join("").length;
  const passage = [at(chunk.start), at(chunk.end)];
  const cited = (quote && nearest(text, quote, passage[0])) || passage;
  const within = ([from, to], place) => from <= place && place < to;
  const cuts = [...new Set([0, ...passage, ...cited, text.length])].sort((a, b) => a - b);
  return cuts.slice(0, -1).map((from, number) => {
    const piece = text.slice(from, cuts[number + 1]);
    if (within(cited, from)) return make("mark", {}, piece);
    if (within(passage, from)) return make("span", { class: "within" }, piece);
    return piece;
  });
}

/** Where the quote stands nearest to `place`; null where it does not. */
function nearest(text, quote, place) {
  let best = null;
  for (let from = text.indexOf(quote); from >= 0; from = text.indexOf(quote, from + 1)) {
    if (best === null || Math.abs(from - place) < Math.abs(best - place)) best = from;
  }
  return best === null ? null : [best, best + quote.length];
}
