// Filters made from the fields that the collection declares, in the language of the service.

import { byId, make } from "./dom.js";

const EQUAL = { eq: "is", ne: "is not" };
const ORDERED = { ...EQUAL, gte: "is at least", lte: "is at most", gt: "is more than", lt: "is less than" };
const DATES = { ...EQUAL, gte: "is on or after", lte: "is on or before" };

// By type: what can be said of a field, and how its value is written.
const TYPES = {
  keyword: { operators: { ...EQUAL, in: "is one of" }, input: { type: "text" } },
  int: { operators: ORDERED, input: { type: "number", step: "1" } },
  float: { operators: ORDERED, input: { type: "number", step: "any" } },
  date: { operators: DATES, input: { type: "date" } },
  bool: { operators: { eq: "is" } },
};

const typeOf = (kind) => TYPES[kind] ?? TYPES.keyword; // the other one is text, which is a keyword too

/** The value of a condition as the filter takes it. */
function valueOf(kind, operator, text) {
  if (kind === "int" || kind === "float") return Number(text);
  if (kind === "bool") return text === "true";
  if (operator === "in") return text.split(",").map((part) => part.trim()).filter(Boolean);
  return text;
}

/** The rows of conditions that stand under the question. */
export class Filters {
  constructor() {
    this.fields = {};
    this.list = byId("conditions");
    byId("add-filter").addEventListener("click", () => this.add().field.focus());
  }

  /** Offers these fields (name to type), and nothing where there are none. */
  declare(fields) {
    this.fields = fields;
    byId("filters").hidden = Object.keys(fields).length === 0;
    this.state = this.state.filter(([field]) => field in fields);
  }

  /** The conditions as [field, operator, value as it is written]. */
  get state() {
    return [...this.list.children].map((row) => {
      const { field, operator, value } = row.controls;
      return [field.value, operator.value, value.value];
    });
  }

  set state(conditions) {
    this.list.replaceChildren();
    for (const condition of conditions) this.add(condition);
  }

  /** The filter that all conditions make together; null without any. */
  get filter() {
    const parts = this.state.map(([field, operator, text]) => {
      const value = valueOf(this.fields[field], operator, text);
      return { [field]: operator === "eq" ? value : { [operator]: value } };
    });
    return parts.length > 1 ? { and: parts } : (parts[0] ?? null);
  }

  /** A new row; returns its controls. */
  add([name, operator, text] = []) {
    const names = Object.keys(this.fields);
    const field = make("select", { "aria-label": "Field" }, names.map((each) => option(each)));
    if (names.includes(name)) field.value = name;
    const remove = make(
      "button",
      { type: "button", class: "plain", onclick: () => this.remove(row) },
      make("span", { "aria-hidden": "true" }, "×"),
    );
    const row = make("li", { class: "condition" }, field, remove);
    row.controls = { field };
    this.fill(row, operator, text);
    field.addEventListener("change", () => this.fill(row));
    remove.setAttribute("aria-label", "Remove this filter");
    this.list.append(row);
    return row.controls;
  }

  /** Gives a row the operators and the input of its field's type. */
  fill(row, operator, text) {
    const { operators, input } = typeOf(this.fields[row.controls.field.value]);
    const choice = make(
      "select",
      { "aria-label": "Condition" },
      Object.entries(operators).map(([name, words]) => option(name, words)),
    );
    if (operator in operators) choice.value = operator;
    const value = input
      ? make("input", { ...input, required: true, "aria-label": "Value", autocomplete: "off" })
      : make("select", { "aria-label": "Value" }, option("true", "yes"), option("false", "no"));
    if (text !== undefined) value.value = text;
    const hint = () => (value.placeholder = choice.value === "in" ? "one, another" : "");
    choice.addEventListener("change", hint);
    hint();
    row.controls.operator?.remove();
    row.controls.value?.remove();
    row.controls.field.after(choice, value);
    Object.assign(row.controls, { operator: choice, value });
  }

  remove(row) {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    (next?.controls.field ?? byId("add-filter")).focus();
  }
}

function option(value, words = value) {
  return make("option", { value }, words);
}
