// A question or a search from its sending to what is shown of the reply.

import * as api from "./api.js";
import { byId, count, make, say } from "./dom.js";
import { Names, answerNodes, showHits, showMore, showSources } from "./results.js";

const SAID = 600; // characters of an answer that are read out when it is complete

/** Asks one thing at a time: what is asked next stops what came before. */
export class Asking {
  /** `open` opens a passage, `failed` is told of an error, `answeredBy` of the version. */
  constructor({ open, failed, answeredBy }) {
    Object.assign(this, { open, failed, answeredBy });
    this.running = null;
    byId("stop").addEventListener("click", () => this.running?.abort());
  }

  /** Stops what is asked and shows no result. */
  clear() {
    this.running?.abort();
    this.running = null;
    byId("results").hidden = true;
    progress("");
    busy(false);
  }

  /** Asks or searches for `words`; `none` is what to say where nothing is found. */
  async run({ mode, words, filter, none }) {
    this.running?.abort();
    const mine = (this.running = new AbortController());
    const again = () => this.run({ mode, words, filter, none });
    this.none = none;
    begin(mode);
    busy(true);
    try {
      const body = filter ? { filter } : {};
      if (mode === "ask") await this.ask({ question: words, stream: true, ...body }, mine.signal);
      else await this.search({ query: words, ...body }, mine.signal);
    } catch (error) {
      if (this.running !== mine) return; // something else was asked meanwhile
      progress(api.stopped(error) ? "Stopped." : "");
      if (!api.stopped(error)) this.failed(error, again);
    }
    if (this.running !== mine) return;
    this.running = null;
    busy(false);
  }

  async search(body, signal) {
    const reply = await api.json("v1/search", { body, signal });
    this.found(reply);
    showMore(reply);
    progress("", `${count(reply.hits.length, "passage")} found.`);
  }

  async ask(body, signal) {
    const draft = document.createTextNode("");
    byId("answer-text").replaceChildren(draft);
    let hits = [];
    let complete = false;
    for await (const [name, data] of api.events("v1/ask", { body, signal })) {
      if (name === "hits") {
        hits = data.hits;
        this.found(data);
        progress(`${count(hits.length, "passage")} found. Writing …`);
      } else if (name === "token") {
        draft.appendData(data.text);
      } else if (name === "answer") {
        this.answered(data, new Names(hits));
        complete = true;
      } else if (name === "error") {
        throw new api.ServiceError(0, data.error.message);
      }
    }
    if (!complete) throw new api.ServiceError(0, "The answer broke off.");
  }

  found({ hits, version }) {
    this.answeredBy(version);
    showHits(hits, this.open);
    byId("passages").hidden = false;
    byId("passages-title").textContent = hits.length ? `Passages (${hits.length})` : "Passages";
    if (!hits.length) byId("hits").replaceChildren(make("li", { class: "nothing" }, this.none));
  }

  answered(answer, names) {
    byId("answer-text").replaceChildren(...answerNodes(answer, names, this.open));
    showSources(answer.citations, names, this.open);
    showMore(answer);
    const whole = answer.answer.length <= SAID ? ` ${answer.answer}` : "";
    const citations = count(answer.citations.length, "citation");
    progress("", `The answer is complete, with ${citations}.${whole}`);
  }
}

function begin(mode) {
  const results = byId("results");
  results.hidden = false;
  results.className = mode === "ask" ? "asked" : "searched";
  byId("answer").hidden = mode !== "ask";
  byId("passages").hidden = true;
  for (const id of ["answer-text", "sources", "hits", "more"]) byId(id).replaceChildren();
  progress("Searching …");
}

/** What goes on: `seen` for those who look, `said` for those who listen. */
function progress(seen, said = seen) {
  byId("progress").textContent = seen;
  say(said);
}

/** The button that asks and the one that stops are one place, which keeps the focus. */
function busy(is) {
  const [go, stop] = [byId("go"), byId("stop")];
  const focused = document.activeElement === (is ? go : stop);
  stop.hidden = !is;
  go.hidden = is;
  if (focused) (is ? stop : go).focus();
  byId("results").setAttribute("aria-busy", String(is));
}
