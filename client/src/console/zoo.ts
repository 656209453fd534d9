/** The zoo browser: keys with an entry, by workload and device. */
import { element } from "../page/elements.js";
import { ago, count, integer, speedup } from "../page/text.js";
import type { FoundKey, FoundKeys } from "../wire/types.js";
import { followed } from "./followed.js";
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
import { address, type Route } from "./route.js";
import { isNarrowed, searchForm, searchQuery } from "./search.js";

const PAGE = 50;

export function zooView({ query }: Route, signal: AbortSignal): readonly HTMLElement[] {
  const offset = Math.max(0, Math.trunc(Number(query.offset ?? 0)) || 0);
  const asked = searchQuery(query);
  asked.set("limit", String(PAGE));
  asked.set("offset", String(offset));
  const found = followed<FoundKeys>(
    {
      path: `/v1/keys?${asked}`,
      everyMs: 15_000,
      draw: (value) => draw(value, query, offset),
    },
    signal,
  );
  return [card("Kernels by workload and device", searchForm("zoo", query), found)];
}

const COLUMNS: readonly Column<FoundKey>[] = [
  { title: "Workload", cell: ({ workload, device_class }) => keyLink(workload, device_class) },
  { title: "Device", cell: ({ hardware, device_class }) => classCell(hardware, device_class) },
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

function draw({ keys, total }: FoundKeys, query: Route["query"], offset: number): Node {
  if (keys.length === 0) return nothing(query, offset);
  const last = offset + keys.length;
  const range = `${integer(offset + 1)} to ${integer(last)} of ${count(total, "key")}`;
  const turn = element("nav", "turn", element("span", "quiet", range));
  turn.setAttribute("aria-label", "Pages of the list");
  if (offset > 0) turn.append(page("Newer", query, offset - PAGE));
  if (last < total) turn.append(page("Older", query, offset + PAGE));
  return element("div", "", table("Keys of the zoo", COLUMNS, keys), turn);
}

const page = (text: string, query: Route["query"], offset: number): HTMLElement =>
  link(address("zoo", [], { ...query, offset: String(Math.max(0, offset)) }), text);

function nothing(query: Route["query"], offset: number): HTMLElement {
  if (isNarrowed(query) || offset > 0) {
    return empty("No key has an entry that fits.", link(address("zoo"), "Show all keys"));
  }
  return empty(
    "The zoo is empty. Register a workload, and let agents measure it:",
    code("kernelzoo tune matmul 384x768x768"),
  );
}
