/** Device classes against workloads: what is confirmed, provisional, missing. */
import { element } from "../page/elements.js";
import { count, integer } from "../page/text.js";
import type { Coverage } from "../wire/types.js";
import { coverageMap, MEANING } from "./coverage-map.js";
import { followed } from "./followed.js";
import { modelsCard } from "./models.js";
import { type Column, card, classCell, code, empty, link, table } from "./pieces.js";
import { aboutRho } from "./rho.js";
import { address, type Route } from "./route.js";
import { isNarrowed, searchForm, searchQuery } from "./search.js";

export function coverageView({ query }: Route, signal: AbortSignal): readonly HTMLElement[] {
  const map = followed<Coverage>(
    {
      path: `/v1/coverage?${searchQuery(query)}`,
      everyMs: 15_000,
      draw: (value) => draw(value, query),
    },
    signal,
  );
  return [
    card("Device classes against workloads", searchForm("coverage", query), map),
    modelsCard(signal),
  ];
}

function draw(coverage: Coverage, query: Route["query"]): Node {
  if (coverage.classes.length === 0 || coverage.workloads.length === 0) {
    return nothing(query, coverage.total_workloads === 0);
  }
  const details = element(
    "details",
    "",
    element("summary", "", "Coverage of each class as a table"),
    table("Coverage of each class", COLUMNS, coverage.classes),
  );
  details.id = "coverage-table";
  return element(
    "div",
    "",
    element("p", "quiet", size(coverage)),
    coverageMap(coverage),
    details,
    aboutRho(),
  );
}

function size({ classes, workloads, total_classes, total_workloads }: Coverage): string {
  const shown = `${count(classes.length, "class", "classes")} and ${count(workloads.length, "workload")}`;
  if (classes.length === total_classes && workloads.length === total_workloads) return `${shown}.`;
  return (
    `${shown} of ${integer(total_classes)} and ${integer(total_workloads)}: those with most ` +
    "agents and entries. Search to see others."
  );
}

const marked = (letter: string) => (row: Coverage["classes"][number]) =>
  integer([...row.marks].filter((mark) => mark === letter).length);

const COLUMNS: readonly Column<Coverage["classes"][number]>[] = [
  { title: "Device", cell: ({ device }) => classCell(device) },
  { title: "Identities", numeric: true, cell: ({ device }) => integer(device.identities) },
  ...MEANING.map(({ letter, text }) => ({
    title: text,
    numeric: true as const,
    cell: marked(letter),
  })),
];

function nothing(query: Route["query"], noWorkload: boolean): HTMLElement {
  if (isNarrowed(query)) {
    return empty("No class or no workload fits.", link(address("coverage"), "Show all"));
  }
  if (noWorkload) {
    return empty("No workload is registered:", code("kernelzoo tune matmul 384x768x768"));
  }
  return empty("No device has taken part yet.", link(address("invite"), "Tune a device"));
}
