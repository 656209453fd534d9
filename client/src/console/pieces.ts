/** Pieces that several views are made of. */
import { element } from "../page/elements.js";
import { count } from "../page/text.js";
import type { EntryState, HardwareWire, Reason } from "../wire/types.js";
import { address } from "./route.js";

export type Cell = Node | string;

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => Cell;
  /** Numbers stand to the right, one unit under the other. */
  readonly numeric?: true;
}

/** A table. Its roles are explicit, as a phone shows it as a list of cards. */
export function table<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): HTMLElement {
  const align = ({ numeric }: Column<Row>): string => (numeric ? "number" : "");
  const head = columns.map((column) =>
    withRole("columnheader", element("th", align(column), column.title)),
  );
  const body = rows.map((row) => {
    const cells = columns.map((column) => {
      const cell = withRole("cell", element("td", align(column), column.cell(row)));
      cell.dataset.title = column.title;
      return cell;
    });
    return withRole("row", element("tr", "", ...cells));
  });
  const node = element(
    "table",
    "",
    element("caption", "hidden", caption),
    withRole("rowgroup", element("thead", "", withRole("row", element("tr", "", ...head)))),
    withRole("rowgroup", element("tbody", "", ...body)),
  );
  return scrolling(caption, withRole("table", node));
}

function withRole<T extends HTMLElement>(role: string, node: T): T {
  node.setAttribute("role", role);
  return node;
}

/** Wider than a phone: it scrolls by itself, with the keyboard too. */
export function scrolling(label: string, content: HTMLElement): HTMLElement {
  const region = element("div", "scroll", content);
  region.tabIndex = 0;
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", label);
  return region;
}

export function card(title: string, ...children: readonly Cell[]): HTMLElement {
  return element("section", "card", element("h2", "", title), ...children);
}

export function link(href: string, ...children: readonly Cell[]): HTMLElement {
  const anchor = element("a", "", ...children);
  anchor.href = href;
  return anchor;
}

export const code = (text: string): HTMLElement => element("code", "", text);

/** An input of a form, which no browser fills in unless told. */
export function input(id: string, type: string): HTMLInputElement {
  const control = element("input", "");
  control.id = id;
  control.type = type;
  control.autocomplete = "off";
  return control;
}

/** An input, or another control, under its title. */
export function field(
  title: string,
  control: HTMLInputElement | HTMLSelectElement,
  look = "field",
): HTMLElement {
  const label = element("label", "", title);
  label.htmlFor = control.id;
  return element("div", look, label, control);
}

/** Says what is missing, and the command that changes it. */
export const empty = (text: string, ...remedy: readonly Cell[]): HTMLElement =>
  element("p", "quiet", `${text} `, ...remedy);

/** Numbers with their names, the most telling first. */
export function facts(pairs: readonly (readonly [string, Cell])[]): HTMLElement {
  const rows = pairs.map(([name, value]) =>
    element("div", "", element("dt", "", name), element("dd", "fact", value)),
  );
  return element("dl", "facts", ...rows);
}

const MARKS = { confirmed: "●", provisional: "◐", retired: "○" } as const satisfies Record<
  EntryState,
  string
>;

export function badge(state: EntryState): HTMLElement {
  const mark = element("span", "", MARKS[state]);
  mark.setAttribute("aria-hidden", "true");
  return element("span", `badge ${state}`, mark, ` ${state}`);
}

const named = (...names: readonly string[]): string => names.filter(Boolean).join(" ");

/** A class of devices, as the gateway tells it. */
export interface Classed {
  readonly device_class: string;
  readonly hardware: HardwareWire;
  readonly engines: readonly string[];
}

/**
 * The hardware that matters to a class, in words: `x86-64, 2 cores` or `google swiftshader`. Where
 * the browser tells none, the browser itself says more than nothing.
 */
export function deviceName({ hardware, device_class, engines }: Classed): string {
  const [latest] = engines;
  const browser = latest === undefined ? "" : ` in ${latest}`;
  if (device_class.includes(":webgpu")) {
    return named(hardware.gpu_vendor, hardware.gpu_architecture) || `unknown GPU${browser}`;
  }
  const processor = hardware.cpu_architecture || `unknown processor${browser}`;
  return `${processor}, ${hardware.logical_cores} ${hardware.logical_cores === 1 ? "core" : "cores"}`;
}

/** ρ and target of a class, without the hash and the features. */
export function classDetail(deviceClass: string): string {
  const [id = "", rho = "", target = ""] = deviceClass.split(":");
  return `${target.split("+")[0]} ${rho} ${id.slice(0, 6)}`;
}

export function classCell(device: Classed): HTMLElement {
  const node = element(
    "span",
    "",
    deviceName(device),
    " ",
    element("span", "quiet", classDetail(device.device_class)),
  );
  node.title = device.device_class;
  return node;
}

export const keyLink = (workload: string, deviceClass: string): HTMLElement =>
  link(address("zoo", [workload, deviceClass]), code(workload));

/** Says why a version came; `detail`: in the words that were kept, where there are any. */
export function why(reason: Reason, ballots: number, detail: string): string {
  switch (reason) {
    case "first":
      return "first ballot";
    case "lead":
      return "leads before the quorum";
    case "quorum":
      return `quorum of ${count(ballots, "ballot")}`;
    case "challenge":
      return "won the challenge";
    case "decided":
      return detail;
    default:
      return reason satisfies never;
  }
}
