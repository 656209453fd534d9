import type { Lease } from "../wire/types.js";
import type { Ranked } from "./ranking.js";

/** What this agent measured of one workload, by candidate. Grows with each lease. */
export interface WorkloadResults {
  readonly ranked: Map<string, Ranked>;
  bestGflops: number | null;
}

/** By workload; forgotten with the page. */
export type Results = Map<string, WorkloadResults>;

/** The results of the lease's workload, with what this browser reported before this page. */
export function resultsOf(results: Results, { workload, measured }: Lease): WorkloadResults {
  const found = results.get(workload) ?? { ranked: new Map(), bestGflops: null };
  for (const { kernel, relative_time } of measured) {
    if (found.ranked.has(kernel.candidate)) continue;
    found.ranked.set(kernel.candidate, { kernel, relativeTime: relative_time });
  }
  results.set(workload, found);
  return found;
}
