/** Jobs as a table. */
import { element } from "../page/elements.js";
import { integer, rate } from "../page/text.js";
import type { Job } from "../wire/types.js";
import { type Column, code, empty, link, table } from "./pieces.js";
import { address } from "./route.js";

export const jobTarget = ({ target, space }: Job): string =>
  space === "" ? target : `${target} on ${space}`;

/**
 * Done: every device class that voted has its winner, and nothing contends with it. Another device
 * may come and measure it, too; then it is voted on again.
 */
export function jobState(job: Job): string {
  const { state, detail, candidates, compiled, failed, measurements, entries, final } = job;
  const skipping = job.skipped_by.join(", ");
  if (skipping !== "") return `skipped by ${skipping}: two devices lost`;
  if (detail !== "") return `${state}: ${detail}`;
  if (state !== "planned") return state;
  if (compiled + failed < candidates) return "compiling";
  if (measurements === 0) return "waiting for agents";
  if (entries === 0) return "measuring";
  return final === entries ? "done" : "voting";
}

export function compiledBar({ compiled, failed, candidates }: Job): HTMLElement {
  const bar = element("progress", "");
  bar.max = Math.max(candidates, 1);
  bar.value = compiled + failed;
  bar.setAttribute("aria-label", "Compiled candidates");
  const text = failed > 0 ? `${compiled} + ${failed} failed` : `${compiled}`;
  return element("span", "compiled", bar, ` ${text} of ${candidates}`);
}

const COLUMNS: readonly Column<Job>[] = [
  {
    title: "Workload",
    cell: ({ job, workload }) => link(address("tuning", [String(job)]), code(workload)),
  },
  { title: "Target", cell: jobTarget },
  { title: "State", cell: jobState },
  { title: "Compiled", cell: compiledBar },
  { title: "Measurements", numeric: true, cell: ({ measurements }) => integer(measurements) },
  { title: "Ballots", numeric: true, cell: ({ ballots }) => integer(ballots) },
  {
    title: "Best",
    numeric: true,
    cell: ({ best_ns, flops }) => rate(best_ns === null ? null : flops / best_ns),
  },
];

export function jobTable(jobs: readonly Job[], caption: string): HTMLElement {
  if (jobs.length > 0) return table(caption, COLUMNS, jobs);
  return empty(
    "Nothing is being tuned. Register a workload:",
    code("kernelzoo tune matmul 384x768x768"),
  );
}
