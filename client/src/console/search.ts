/** The fields that narrow a list or a map: what they hold is part of the address. */
import { element } from "../page/elements.js";
import { field, input } from "./pieces.js";
import { address, type Route, type ViewName } from "./route.js";

function words(name: string, title: string, hint: string, value: string): HTMLElement {
  const sought = input(`search-${name}`, "search");
  sought.name = name;
  sought.autocomplete = "on";
  sought.maxLength = 128;
  sought.placeholder = hint;
  sought.value = value;
  return field(title, sought);
}

/** One of a few values, or any. */
export interface Filter {
  readonly name: string;
  readonly title: string;
  readonly choices: readonly string[];
}

function choice({ name, title, choices }: Filter, value: string): HTMLElement {
  const select = element("select", "");
  select.name = name;
  select.id = `search-${name}`;
  select.append(new Option("any", ""), ...choices.map((choice) => new Option(choice, choice)));
  select.value = choices.includes(value) ? value : "";
  select.addEventListener("change", () => select.form?.requestSubmit());
  return field(title, select, "field short");
}

const TEXTS = ["workload", "device"] as const;

const namesOf = (filters: readonly Filter[]): readonly string[] => [
  ...TEXTS,
  ...filters.map(({ name }) => name),
];

export function searchForm(
  view: ViewName,
  query: Route["query"],
  filters: readonly Filter[] = [],
): HTMLElement {
  const button = element("button", "plain", "Search");
  const form = element(
    "form",
    "fields",
    words("workload", "Workload", "matmul", query.workload ?? ""),
    words("device", "Device", "x86, apple, a class …", query.device ?? ""),
    ...filters.map((filter) => choice(filter, query[filter.name] ?? "")),
    button,
  );
  form.setAttribute("role", "search");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = new FormData(form);
    const pairs = namesOf(filters).map((name) => [name, String(given.get(name) ?? "").trim()]);
    location.hash = address(view, [], Object.fromEntries(pairs));
  });
  return form;
}

/** Translates the words of a search for the gateway. */
export function searchQuery(
  query: Route["query"],
  filters: readonly Filter[] = [],
): URLSearchParams {
  const asked = new URLSearchParams(TEXTS.map((name) => [name, query[name] ?? ""]));
  for (const { name, choices } of filters) {
    const value = query[name] ?? "";
    if (choices.includes(value)) asked.set(name, value);
  }
  return asked;
}

export const isNarrowed = (query: Route["query"], filters: readonly Filter[] = []): boolean =>
  namesOf(filters).some((name) => Boolean(query[name]));
