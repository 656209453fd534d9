/** The zoo browser: keys with an entry, by workload and device. */
import { element } from "../page/elements.js";
import { ago, integer, speedup } from "../page/text.js";
import type { FoundKey, FoundKeys } from "../wire/types.js";
import { followed } from "./followed.js";
import { offsetOf, pager, pageSize } from "./pager.js";
import {
  badge,
  type Column,
  card,
  classCell,
  code,
  empty,
  keyLink,
  link,
  table,
} from "./pieces.js";
import { aboutRho } from "./rho.js";
import { address, type Route } from "./route.js";
import { type Filter, isNarrowed, searchForm, searchQuery } from "./search.js";

export function zooView({ query }: Route, signal: AbortSignal): readonly HTMLElement[] {
  const size = pageSize();
  const asked = searchQuery(query, FILTERS);
  asked.set("limit", String(size));
  asked.set("offset", String(offsetOf(query)));
  const results = followed<FoundKeys>(
    {
      path: `/v1/keys?${asked}`,
      everyMs: 15_000,
      draw: (value) => draw(value, query, size),
    },
    signal,
  );
  return [card("Kernels by workload and device", searchForm("zoo", query, FILTERS), results)];
}

const FILTERS: readonly Filter[] = [
  { name: "entry", title: "State", choices: ["confirmed", "provisional"] },
  { name: "target", title: "Target", choices: ["wasm", "webgpu"] },
];

const COLUMNS: readonly Column<FoundKey>[] = [
  { title: "Workload", cell: ({ workload, device_class }) => keyLink(workload, device_class) },
  { title: "Device", cell: classCell },
  { title: "State", cell: ({ state }) => badge(state) },
  { title: "Version", numeric: true, cell: ({ version }) => String(version) },
  { title: "Ballots", numeric: true, cell: ({ ballots }) => integer(ballots) },
  {
    title: "Against reference",
    numeric: true,
    cell: ({ relative_time }) => speedup(relative_time),
  },
  { title: "Published", numeric: true, cell: ({ published_at }) => ago(published_at, Date.now()) },
];

function draw({ keys, total }: FoundKeys, query: Route["query"], size: number): Node {
  if (keys.length === 0) return nothing(query);
  const turn = pager({ view: "zoo", query, size, shown: keys.length, total, what: "key" });
  return element("div", "", table("Keys of the zoo", COLUMNS, keys), turn, aboutRho());
}

function nothing(query: Route["query"]): HTMLElement {
  if (isNarrowed(query, FILTERS) || offsetOf(query) > 0) {
    return empty("No key has an entry that fits.", link(address("zoo"), "Show all keys"));
  }
  return empty(
    "The zoo is empty. Register a workload, and let agents measure it:",
    code("kernelzoo tune matmul 384x768x768"),
  );
}
