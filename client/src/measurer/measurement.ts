/** Time budgets, comparison, rounds and outcomes, which the measurements of both targets share. */

import { maxDifference } from "../engine/difference.js";
import { KernelZooError, type Stage, sentence } from "../engine/error.js";
import { sampledPositions } from "../engine/seeded.js";
import type { OutputView } from "../engine/tensors.js";
import { type Clock, now } from "../timing/clock.js";
import { confirmed, interleave, type Sampler, sampleRound } from "../timing/samples.js";
import type {
  KernelWire,
  Lease,
  MeasurementWire,
  Outcome,
  PreparationWire,
} from "../wire/types.js";

/**
 * Describes what candidates are measured against, of a lease or of a model that runs in this page. Inputs are
 * those of `seed`; `candidates` are all that a lease lends.
 */
export interface Subject extends Pick<Lease, "workload" | "tolerance" | "reference" | "seed"> {
  readonly candidates?: Lease["candidates"];
}

const ROUNDS = 3;
/**
 * More rounds are taken where only one sample shows what the device can do: a GPU whose clock rises
 * between the two of a round makes either look several times faster than the other.
 */
const MOST_ROUNDS = 6;
const SEEN_WITHIN = 1.5;
const FINAL_ROUNDS = { least: 5, most: 20 };
const BUDGET_MS = 2_000;
/** A candidate of a long workload may take this many calls of the reference. */
const BUDGET_CALLS = 12;
export const REFERENCE_BUDGET_MS = 60_000;
/**
 * A candidate that is this many times slower than the reference in two rounds is not timed in a
 * third. One round is not enough, as a sample of a millisecond that loses the processor once takes
 * four times as long.
 */
const HOPELESS = 2;
const ROUNDS_TO_GIVE_UP = 2;

export const late = (): KernelZooError =>
  new KernelZooError("timeout", "The candidate took longer than its time budget.");

/** The time at which a candidate is given up whose reference takes `callMs`. */
export const deadlineMs = (callMs: number, clock: Clock = now): number =>
  clock() + Math.max(BUDGET_MS, BUDGET_CALLS * callMs);

/** Throws KernelZooError (compare) unless every entry is within the lease's tolerance. */
export function compare(output: OutputView, expected: OutputView, tolerance: number): void {
  const difference = maxDifference(output, expected);
  if (difference <= tolerance) return;
  throw new KernelZooError(
    "compare",
    `The output differs from the reference by ${difference}; ${tolerance} is allowed.`,
  );
}

/** Says how measuring shares its thread and its device with others. */
export interface Pacing {
  /** Awaited after each slice of a few milliseconds; null where a turn is worked through. */
  readonly rest: (() => Promise<void>) | null;
  /** It stands still during a rest. */
  readonly clock: Clock;
  /** A candidate that warms up to so many times the reference's time is not timed any further. */
  readonly hopeless: number;
}

export const UNDISTURBED: Pacing = { rest: null, clock: now, hopeless: Number.POSITIVE_INFINITY };

export interface Samples {
  readonly own: readonly number[];
  readonly reference: readonly number[];
}

/** Interleaved rounds of candidate and reference. Throws KernelZooError (timeout). */
export async function screen(
  own: Sampler,
  reference: Sampler,
  untilMs: number,
  clock: Clock = now,
  hopeless = HOPELESS,
): Promise<Samples> {
  const samples = { own: [] as number[], reference: [] as number[] };
  for (let round = 0; round < MOST_ROUNDS; round++) {
    if (round >= ROUNDS && steady(samples)) break;
    const [referenceNs = 0, ownNs = 0] = await sampleRound([reference, own], round);
    samples.own.push(ownNs);
    samples.reference.push(referenceNs);
    const loses = Math.min(...samples.own) > hopeless * Math.min(...samples.reference);
    if (loses && samples.own.length >= ROUNDS_TO_GIVE_UP) break;
    if (clock() > untilMs) throw late();
  }
  return samples;
}

const steady = ({ own, reference }: Samples): boolean =>
  confirmed(own, SEEN_WITHIN) && confirmed(reference, SEEN_WITHIN);

const LARGEST = 2 ** 128 - 2 ** 104;

/**
 * The output's values at the positions that the lease's seed names. JSON has no NaN and no infinity:
 * they are told as the largest float32, which the zoo takes where no number is right.
 */
export function sampledEntries({ seed }: Subject, output: OutputView): readonly number[] {
  const entries = sampledPositions(seed, output.length).map((i) => output[i] as number);
  return entries.map((entry) => (Number.isFinite(entry) ? entry : LARGEST));
}

/** The measurement of a kernel whose output was right. */
export function measurementOf(
  { candidate }: Pick<KernelWire, "candidate">,
  entries: readonly number[],
  samples: Samples,
  calls: number,
  preparation: PreparationWire | null,
): MeasurementWire {
  return {
    candidate,
    outcome: "ok",
    samples_ns: samples.own,
    reference_ns: samples.reference,
    calls_per_sample: calls,
    sampled_entries: entries,
    detail: "",
    preparation,
  };
}

/** Times relative to the first, from rounds in which all take part. */
export async function rankAgain(
  reference: Sampler,
  others: readonly Sampler[],
): Promise<readonly number[]> {
  const { least, most } = FINAL_ROUNDS;
  const [best = 0, ...times] = (await interleave([reference, ...others], least, most)).map(
    (samples) => Math.min(...samples),
  );
  return times.map((time) => time / best);
}

/** The outcome of a failure at each stage. A stage without one is not the kernel's fault. */
const OUTCOMES: Readonly<Partial<Record<Stage, Outcome>>> = {
  artifact: "validate",
  validate: "validate",
  compile: "compile",
  memory: "run",
  run: "run",
  compare: "compare",
  timeout: "timeout",
};

/**
 * Returns whether the browser refuses the kernel or its driver does not compile it, whatever else
 * runs.
 */
export const didNotCompile = (thrown: unknown): thrown is KernelZooError =>
  thrown instanceof KernelZooError && (thrown.stage === "validate" || thrown.stage === "compile");

const LONGEST_DETAIL = 500;

/** The failed measurement of `kernel`. Throws `thrown` again when the kernel is not at fault. */
export function failureOf(kernel: KernelWire, thrown: unknown): MeasurementWire {
  const outcome = thrown instanceof KernelZooError ? OUTCOMES[thrown.stage] : undefined;
  if (outcome === undefined) throw thrown;
  return {
    candidate: kernel.candidate,
    outcome,
    samples_ns: [],
    reference_ns: [],
    calls_per_sample: 1,
    sampled_entries: [],
    detail: sentence(thrown).slice(0, LONGEST_DETAIL),
    preparation: null,
  };
}
