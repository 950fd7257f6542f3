// The page: the collection, what is asked of it and how that stands in the address, and problems.

import * as api from "./api.js";
import { Asking } from "./asking.js";
import { byId, count, make } from "./dom.js";
import { Filters } from "./filters.js";
import { Passage } from "./passage.js";

const form = byId("ask-form");
const query = byId("query");
const filters = new Filters();
const passage = new Passage(failed);
const asking = new Asking({ open: (what) => passage.open(what), failed, answeredBy: about });

let collection = null;

// ---- the collection

async function start() {
  hideProblems();
  try {
    collection = await api.json("v1/collection");
  } catch (error) {
    failed(error, start);
    return;
  }
  if (form.hidden) {
    form.hidden = false;
    query.focus();
  }
  filters.declare(collection.fields);
  query.maxLength = collection.limits.query_chars;
  byId("home").textContent = collection.name;
  byId("forget-key").hidden = !api.key.get();
  byId("welcome").textContent = isEmpty()
    ? "This collection is empty: there is nothing to find until documents are ingested."
    : "Ask a question: the answer cites the passages that it comes from. Or search, and read these yourself.";
  about(collection.version);
  fromAddress();
}

const isEmpty = () => collection.chunks === 0; // a key that sees a part is not told of the whole

function about(version) {
  const { documents, chunks } = collection;
  const sizes = documents ? [count(documents.ok, "document"), count(chunks, "passage")] : [];
  byId("about").textContent = [...sizes, `version ${version}`].join(" · ");
}

// ---- what is asked, and the address: ?q=...&mode=search&where=field:operator:value

const mode = () => form.elements.mode.value;

function toAddress() {
  const parameters = new URLSearchParams({ q: query.value.trim(), mode: mode() });
  for (const condition of filters.state) parameters.append("where", condition.join(":"));
  const address = `?${parameters}`;
  if (address !== location.search) history.pushState(null, "", address);
}

function fromAddress() {
  const parameters = new URLSearchParams(location.search);
  form.elements.mode.value = parameters.get("mode") === "search" ? "search" : "ask";
  query.value = parameters.get("q") ?? "";
  filters.state = parameters
    .getAll("where")
    .map((text) => /^([^:]*):([^:]*):(.*)$/s.exec(text)?.slice(1))
    .filter((condition) => condition && condition[0] in filters.fields);
  label();
  if (query.value.trim() && form.reportValidity()) run();
  else clear();
}

function label() {
  const asks = mode() === "ask";
  byId("query-label").textContent = asks ? "Question" : "Search words";
  query.placeholder = asks ? "What would you like to know?" : "Words to search for";
  byId("go").textContent = asks ? "Ask" : "Search";
}

function clear() {
  hideProblems();
  asking.clear();
  byId("welcome").hidden = false;
  document.title = collection.name;
}

function run() {
  const words = query.value.trim();
  hideProblems();
  byId("welcome").hidden = true;
  document.title = `${words} – ${collection.name}`;
  const { filter } = filters;
  const none = isEmpty()
    ? "The collection is empty."
    : `Nothing was found. Other words may help${filter ? ", or fewer filters" : ""}.`;
  asking.run({ mode: mode(), words, filter, none });
}

// ---- what goes wrong

function hideProblems() {
  byId("problem").hidden = true;
  byId("key-form").hidden = true;
}

/** Says what went wrong, in the service's words; `again` is what can be tried again. */
function failed(error, again = null) {
  if (error.status === 401) {
    askForKey(error);
    return;
  }
  const parts = [make("p", {}, error.message)];
  if (error.waitS) {
    parts.push(make("p", {}, `The service asks to wait for ${count(error.waitS, "second")}.`));
  }
  if (again && error.status !== 400) parts.push(retry(again, error.waitS ?? 0));
  byId("problem").replaceChildren(...parts);
  byId("problem").hidden = false;
  if (!byId("hits").hasChildNodes()) byId("results").hidden = true;
}

function retry(again, waitS) {
  const tried = () => {
    hideProblems();
    again();
  };
  const button = make("button", { type: "button", disabled: waitS > 0, onclick: tried }, "Try again");
  setTimeout(() => (button.disabled = false), waitS * 1000);
  return button;
}

function askForKey(error) {
  byId("key-why").textContent = api.key.get() ? error.message : "";
  api.key.forget();
  byId("forget-key").hidden = true;
  byId("welcome").hidden = true;
  asking.clear();
  form.hidden = true;
  byId("key-form").hidden = false;
  byId("key").value = "";
  byId("key").focus();
}

// ---- listening

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!collection || !query.value.trim()) return;
  toAddress();
  run();
});
for (const choice of form.elements.mode) choice.addEventListener("change", label);
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.key.set(byId("key").value.trim());
  start();
});
byId("forget-key").addEventListener("click", () => {
  api.key.forget();
  location.reload();
});
addEventListener("popstate", () => collection && fromAddress());
start();
