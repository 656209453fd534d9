/** The two fields that narrow a list or a map: their text is part of the address. */
import { element } from "../page/elements.js";
import { address, type Route, type ViewName } from "./route.js";

function field(name: string, title: string, hint: string, value: string): HTMLElement {
  const input = element("input", "");
  input.type = "search";
  input.name = name;
  input.id = `search-${name}`;
  input.maxLength = 128;
  input.placeholder = hint;
  input.value = value;
  const label = element("label", "", title);
  label.htmlFor = input.id;
  return element("div", "field", label, input);
}

export function searchForm(view: ViewName, query: Route["query"]): HTMLElement {
  const button = element("button", "plain", "Search");
  const form = element(
    "form",
    "fields",
    field("workload", "Workload", "matmul", query.workload ?? ""),
    field("device", "Device", "x86, apple, a class …", query.device ?? ""),
    button,
  );
  form.setAttribute("role", "search");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = new FormData(form);
    const text = (name: string): string => String(given.get(name) ?? "").trim();
    location.hash = address(view, [], { workload: text("workload"), device: text("device") });
  });
  return form;
}

/** The same words for the gateway. */
export function searchQuery(query: Route["query"]): URLSearchParams {
  return new URLSearchParams({
    workload: query.workload ?? "",
    device: query.device ?? "",
  });
}

export const isNarrowed = (query: Route["query"]): boolean =>
  Boolean(query.workload || query.device);
