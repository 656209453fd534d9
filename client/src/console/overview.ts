/** Shows what the zoo holds, who is at work, and what was published last. */
import { element } from "../page/elements.js";
import { ago, count, integer, speedup } from "../page/text.js";
import type { JobList, Overview, Promotion } from "../wire/types.js";
import { followed } from "./followed.js";
import { jobTable } from "./jobs.js";
import {
  badge,
  type Cell,
  type Column,
  card,
  classDetail,
  code,
  empty,
  facts,
  keyLink,
  link,
  table,
  why,
} from "./pieces.js";
import { address } from "./route.js";

export function overviewView(signal: AbortSignal): readonly HTMLElement[] {
  const totals = followed<Overview>(
    { path: "/v1/overview", everyMs: 5_000, draw: drawOverview },
    signal,
  );
  const jobs = followed<JobList>(
    {
      path: "/v1/jobs?limit=8",
      everyMs: 5_000,
      draw: ({ jobs }) => jobTable(jobs, "The latest jobs"),
    },
    signal,
  );
  const all = element("p", "below", link(address("tuning"), "All jobs and their curves"));
  return [totals, card("Latest jobs", jobs, all)];
}

function drawOverview(value: Overview): Node {
  const tiles = element(
    "section",
    "card",
    facts([
      ["Workloads", figure(value.workloads)],
      ["Device classes", figure(value.device_classes)],
      [`Agents in ${value.recent_s / 60} minutes`, figure(value.agents_recent)],
      ["Confirmed entries", figure(value.confirmed)],
      ["Provisional entries", figure(value.provisional)],
    ]),
    waiting(value),
  );
  return element("div", "", tiles, card("Latest promotions", promotions(value.promotions)));
}

const figure = (n: number): HTMLElement => element("span", "figure", integer(n));

function waiting({ candidates_waiting, jobs_unplanned, quorum }: Overview): HTMLElement {
  const parts = [
    candidates_waiting > 0 ? `${count(candidates_waiting, "candidate")} wait to be compiled.` : "",
    jobs_unplanned > 0 ? `${count(jobs_unplanned, "job")} wait for candidates.` : "",
    `An entry is confirmed by ${count(quorum, "ballot")} of different identities.`,
  ];
  return element("p", "quiet below", parts.filter(Boolean).join(" "));
}

function reasonText({ reason, ballots, detail, candidate, previous }: Promotion): string {
  return `${why(reason, ballots, detail)}${candidate === previous ? ", same kernel" : ""}`;
}

const PROMOTIONS: readonly Column<Promotion>[] = [
  { title: "Workload", cell: ({ workload, device_class }) => keyLink(workload, device_class) },
  { title: "Device class", cell: ({ device_class }) => classDetail(device_class) },
  { title: "Version", numeric: true, cell: ({ version }) => String(version) },
  { title: "State", cell: ({ state }) => badge(state) },
  {
    title: "Against reference",
    numeric: true,
    cell: ({ relative_time }) => speedup(relative_time),
  },
  { title: "Why", cell: reasonText },
  { title: "When", numeric: true, cell: ({ published_at }) => ago(published_at, Date.now()) },
];

function promotions(rows: readonly Promotion[]): Cell {
  if (rows.length > 0) return table("Latest promotions", PROMOTIONS, rows);
  return empty(
    "No kernel has been published yet. Agents vote once a workload is registered:",
    code("kernelzoo tune matmul 384x768x768"),
  );
}
