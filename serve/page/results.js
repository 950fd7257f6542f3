// What was found and what was answered, as elements.

import { byId, count, make, nameOf, pagesOf, short, unseen } from "./dom.js";

/** The list of passages; `open` is called with what is to be opened. */
export function showHits(hits, open) {
  byId("hits").replaceChildren(...hits.map((hit) => hitOf(hit, open)));
}

function hitOf(hit, open) {
  const where = [pagesOf(hit.pages), hit.section].filter(Boolean).join(" · ");
  const name = nameOf(hit);
  const button = make(
    "button",
    { type: "button", class: "title", onclick: () => open({ chunk: hit.chunk_id, name }) },
    name,
  );
  return make(
    "li",
    { class: "hit" },
    make("h3", {}, button),
    where ? make("p", { class: "quiet" }, where) : null,
    make("p", { class: "excerpt" }, hit.text.trim().replace(/\n\s*\n/g, "\n")),
    ...Object.values(hit.channels)
      .filter((place) => place.fact)
      .slice(0, 1)
      .map((place) => make("p", { class: "quiet" }, `Found by: ${place.fact}`)),
    scoresOf(hit),
  );
}

function scoresOf(hit) {
  const places = Object.entries(hit.channels).map(([channel, { rank, score }]) =>
    make(
      "div",
      {},
      make("dt", {}, channel),
      make("dd", {}, `${short(score)} `, make("span", { class: "rank" }, unseen("rank "), `#${rank}`)),
    ),
  );
  const score = make("div", {}, make("dt", {}, "score"), make("dd", {}, short(hit.score)));
  return make("dl", { class: "scores" }, score, places);
}

const MARKER_OR_CODE = /(```[\s\S]*?```|`[^`\n]*`)|\[(\d+)\]/g;

/** The answer's text with its markers as buttons, which open what they cite. */
export function answerNodes({ answer: text, citations }, names, open) {
  const nodes = [];
  const matches = [...text.matchAll(MARKER_OR_CODE)];
  const used = new Map();
  let last = 0;
  for (const match of matches) {
    const [whole, code, marker] = match;
    const quotes = citations.filter((citation) => citation.marker === Number(marker));
    if (!code && !quotes.length) continue;
    const before = text.slice(last, match.index);
    const all = matches.filter((other) => other[2] === marker).length;
    const place = used.get(marker) ?? 0;
    used.set(marker, place + 1);
    // The quotes stand in the order of the sentences, but one that two sentences share is there once.
    const citation = quotes.length === all ? quotes[place] : nearest(quotes, before);
    nodes.push(before, code ? codeOf(code) : markerOf(citation, names, open));
    last = match.index + whole.length;
  }
  return [...nodes, text.slice(last)];
}

function codeOf(text) {
  const block = text.startsWith("```");
  return make("code", { class: block ? "block" : "part" }, text.replace(/^`+|`+$/g, ""));
}

/** The quote that has most words of the text. */
function nearest(quotes, text) {
  const said = new Set(wordsOf(text));
  const shared = ({ quote }) => wordsOf(quote).filter((word) => said.has(word)).length;
  return quotes.reduce((best, each) => (shared(best) >= shared(each) ? best : each));
}

const wordsOf = (text) => [...new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])];

function opened(citation, names) {
  const { chunk_id: chunk, page, quote } = citation;
  return { chunk, page, quote, name: names.of(citation) };
}

function markerOf(citation, names, open) {
  const where = [names.of(citation), pagesOf(citation.page && [citation.page])].filter(Boolean);
  return make(
    "button",
    {
      type: "button", class: "marker", title: where.join(", "),
      "aria-label": `Citation ${citation.marker}: ${where.join(", ")}`,
      onclick: () => open(opened(citation, names)),
    },
    String(citation.marker),
  );
}

/** The cited passages under the answer, a line for each quote. */
export function showSources(citations, names, open) {
  const items = citations.map((citation) =>
    make(
      "li",
      {},
      make("span", { class: "number" }, String(citation.marker)),
      make(
        "button",
        { type: "button", class: "source", onclick: () => open(opened(citation, names)) },
        make("span", { class: "title" }, names.of(citation)),
        citation.page ? make("span", { class: "quiet" }, ` · page ${citation.page}`) : null,
        make("span", { class: "quote" }, citation.quote),
      ),
    ),
  );
  byId("sources").replaceChildren(
    ...(items.length ? [make("h3", {}, "Sources"), make("ul", { role: "list" }, items)] : []),
  );
}

/** How documents are called: by the titles of the passages that were found. */
export class Names {
  constructor(hits) {
    this.titles = new Map(hits.map((hit) => [hit.doc_id, nameOf(hit)]));
  }

  of({ doc_id: id, uri }) {
    return this.titles.get(id) ?? nameOf({ uri });
  }
}

/** Notes, guardrails, timings and the version, under the result. */
export function showMore({ notes = [], guardrails = {}, timings_ms: timings, transform, version }) {
  const asked = transform?.queries ?? [];
  const searched = asked.length ? [`Searched for: ${asked.join(" | ")}`] : [];
  const all = [...notes, ...searched];
  byId("more").replaceChildren(
    ...(all.length
      ? [make("div", { class: "note" }, make("h3", {}, "Notes"),
          make("ul", {}, all.map((note) => make("li", {}, note))))]
      : []),
    ...verdicts(guardrails),
    timingTable(timings),
    make("p", { class: "quiet" }, `From version ${version}`),
  );
}

function verdicts(guardrails) {
  const rules = Object.entries(guardrails);
  if (!rules.length) return [];
  const noticed = rules.filter(([, { status }]) => status === "flagged" || status === "blocked");
  const summary = noticed.length
    ? `Guardrails: ${count(noticed.length, "rule")} of ${rules.length} noticed something`
    : `Guardrails: ${count(rules.length, "rule")}, nothing noticed`;
  const rows = rules.map(([rule, { status, reason }]) =>
    make(
      "tr", {}, make("th", { scope: "row" }, rule),
      make("td", { class: `status ${status}` }, status.replaceAll("_", " ")), make("td", {}, reason),
    ),
  );
  return [folded(summary, ["rule", "status", "why"], rows)];
}

function timingTable({ total, ...stages }) {
  const rows = Object.entries({ ...stages, total }).map(([stage, value]) =>
    make(
      "tr", {}, make("th", { scope: "row" }, stage.replaceAll("_", " ")),
      make("td", { class: "amount" }, `${value.toFixed(1)} ms`),
    ),
  );
  const all = total < 1000 ? `${Math.round(total)} ms` : `${(total / 1000).toFixed(1)} s`;
  return folded(`Timings: ${all} in all`, ["stage", "time"], rows, "timings");
}

function folded(summary, names, rows, kind = "") {
  const head = make("tr", {}, names.map((name) => make("th", { scope: "col" }, name)));
  const table = make("table", { class: kind }, make("thead", {}, head), make("tbody", {}, rows));
  return make("details", {}, make("summary", {}, summary), table);
}
