/** Results of one agent by workload, the ranking that they make, and its ballot. */
import { best } from "../timing/samples.js";
import type { BallotLineWire, Lease, MeasurementWire } from "../wire/types.js";
import type { Finalist } from "./messages.js";

/** Lines of a ballot. */
export const BALLOT_LINES = 5;

/**
 * Relative times of candidates that were measured in a row. All are divided by the best sample
 * of the reference in the whole row: a reference that was disturbed beside one candidate would
 * make that candidate look fast.
 */
export function relativeTimes(row: readonly MeasurementWire[]): ReadonlyMap<string, number> {
  const timed = row.filter(({ outcome }) => outcome === "ok");
  const referenceNs = best(timed.flatMap(({ reference_ns }) => reference_ns));
  return new Map(
    timed.map(({ candidate, samples_ns }) => [candidate, best(samples_ns) / referenceNs]),
  );
}

/** The fastest `limit`, fastest first; equal times in the order of candidate ids. */
export function fastest(ranked: Iterable<Finalist>, limit = BALLOT_LINES): readonly Finalist[] {
  const byTime = (a: Finalist, b: Finalist): number =>
    a.relativeTime - b.relativeTime || (a.kernel.candidate < b.kernel.candidate ? -1 : 1);
  return [...ranked].sort(byTime).slice(0, limit);
}

export function ballotLines(ranked: readonly Finalist[]): BallotLineWire[] {
  return ranked.map(({ kernel, relativeTime: relative_time }) => ({
    candidate: kernel.candidate,
    relative_time,
  }));
}

/** The results of this agent for one workload, by candidate. They grow with each lease. */
export interface WorkloadResults {
  readonly ranked: Map<string, Finalist>;
  bestGflops: number | null;
}

/** Results by workload; they end with the page. */
export type Results = Map<string, WorkloadResults>;

/** The results of the lease's workload, with what this browser reported before this page. */
export function resultsOf(results: Results, { workload, measured }: Lease): WorkloadResults {
  const known = results.get(workload) ?? { ranked: new Map(), bestGflops: null };
  for (const { kernel, relative_time } of measured) {
    if (known.ranked.has(kernel.candidate)) continue;
    known.ranked.set(kernel.candidate, { kernel, relativeTime: relative_time });
  }
  results.set(workload, known);
  return known;
}
