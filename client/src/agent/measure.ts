/** Verify, warm up, time: what becomes of one candidate inside a turn. */
import { maxDifference } from "../engine/compare.js";
import { KernelZooError } from "../engine/error.js";
import type { KernelInstance } from "../engine/instance.js";
import { sampledPositions } from "../engine/seeded.js";
import { type Clock, now } from "../timing/clock.js";
import {
  type Contestant,
  callsPerSample,
  interleave,
  sampleNs,
  sampleRound,
} from "../timing/samples.js";
import { warmUp } from "../timing/warmup.js";
import type { KernelWire, Lease, MeasurementWire } from "../wire/types.js";
import type { Bench } from "./bench.js";

/** An instance in its optimised tier, with the estimated time of one call. */
export interface Warm {
  readonly instance: KernelInstance;
  readonly callMs: number;
}

/** The reference kernel, with its output on the lease's inputs. */
export interface Reference extends Warm {
  readonly output: Float32Array;
}

const ROUNDS = 3;
const FINAL_ROUNDS = { least: 5, most: 20 };
const BUDGET_MS = 2_000;
/** A candidate of a long workload may take this many calls of the reference. */
const BUDGET_CALLS = 12;
const REFERENCE_BUDGET_MS = 60_000;
/**
 * Slower than this against the reference in two rounds: a third tells nothing new. One round is
 * not enough, as a sample of a millisecond that loses the processor once takes four times as long.
 */
const HOPELESS = 2;
const ROUNDS_TO_GIVE_UP = 2;
const PATIENCE_MS = 25;
const WARM_UP_LIMIT_MS = 150;

const late = (): KernelZooError =>
  new KernelZooError("timeout", "The candidate took longer than its time budget.");

/** Runs every entry at least once. Throws KernelZooError: run, timeout. */
function warm(instance: KernelInstance, stepMs: number, deadlineMs: number): Warm {
  const result = warmUp(instance, {
    stepMs,
    patienceMs: PATIENCE_MS,
    limitMs: WARM_UP_LIMIT_MS,
    deadlineMs,
  });
  if (result.kind === "late") throw late();
  return { instance, callMs: result.callMs };
}

/** Calls a sample needs; one trial sample corrects an estimate from a slower tier. */
function calibrated({ instance, callMs }: Warm, stepMs: number): number {
  const calls = callsPerSample(callMs, stepMs);
  if (calls === 1) return 1;
  const trialNs = sampleNs({ calls, call: instance.runAll });
  return Math.max(calls, callsPerSample(trialNs / 1e6, stepMs));
}

/** Warms the reference up and keeps its output. Throws KernelZooError when it cannot. */
export function setReference(
  bench: Bench,
  kernel: KernelWire,
  module: WebAssembly.Module,
  stepMs: number,
): Reference {
  const ready = warm(bench.bind(kernel, module), stepMs, now() + REFERENCE_BUDGET_MS);
  return { ...ready, output: bench.output.slice() };
}

/** Throws KernelZooError (compare) unless every entry is within the lease's tolerance. */
function compare(output: Float32Array, reference: Reference, tolerance: number): void {
  const difference = maxDifference(output, reference.output);
  if (difference <= tolerance) return;
  throw new KernelZooError(
    "compare",
    `The output differs from the reference by ${difference}; ${tolerance} is allowed.`,
  );
}

interface Samples {
  readonly own: readonly number[];
  readonly reference: readonly number[];
}

/** Interleaved rounds of candidate and reference. Throws KernelZooError (timeout). */
export function screen(
  own: Contestant,
  reference: Contestant,
  deadlineMs: number,
  clock: Clock = now,
): Samples {
  const samples = { own: [] as number[], reference: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    const [referenceNs = 0, ownNs = 0] = sampleRound([reference, own], round, clock);
    samples.own.push(ownNs);
    samples.reference.push(referenceNs);
    const hopeless = Math.min(...samples.own) > HOPELESS * Math.min(...samples.reference);
    if (hopeless && samples.own.length >= ROUNDS_TO_GIVE_UP) break;
    if (clock() > deadlineMs) throw late();
  }
  return samples;
}

/**
 * Measures one candidate: one pass in slices writes the whole output and warms the code up, then
 * the output is compared, then the rounds are timed. Throws KernelZooError with the stage.
 */
export function measure(
  bench: Bench,
  lease: Lease,
  reference: Reference,
  kernel: KernelWire,
  module: WebAssembly.Module,
  stepMs: number,
): MeasurementWire {
  const deadlineMs = now() + Math.max(BUDGET_MS, BUDGET_CALLS * reference.callMs);
  bench.clearOutput();
  const ready = warm(bench.bind(kernel, module), stepMs, deadlineMs);
  const { output } = bench;
  compare(output, reference, lease.tolerance);
  const entries = sampledPositions(lease.seed, output.length).map((i) => output[i] as number);
  const calls = Math.max(calibrated(ready, stepMs), calibrated(reference, stepMs));
  const contestant = ({ instance }: Warm): Contestant => ({ calls, call: instance.runAll });
  const samples = screen(contestant(ready), contestant(reference), deadlineMs);
  return {
    candidate: kernel.candidate,
    outcome: "ok",
    samples_ns: samples.own,
    reference_ns: samples.reference,
    calls_per_sample: calls,
    sampled_entries: entries,
    detail: "",
  };
}

/** Relative times of `kernels` from rounds in which all of them and the reference take part. */
export function measureAgain(
  bench: Bench,
  reference: Reference,
  kernels: readonly (readonly [KernelWire, WebAssembly.Module])[],
  stepMs: number,
): readonly number[] {
  const ready = kernels.map(([kernel, module]) =>
    warm(bench.bind(kernel, module), stepMs, now() + REFERENCE_BUDGET_MS),
  );
  const contestants = [reference, ...ready].map((each) => ({
    calls: calibrated(each, stepMs),
    call: each.instance.runAll,
  }));
  const [best = 0, ...others] = interleave(contestants, FINAL_ROUNDS.least, FINAL_ROUNDS.most).map(
    (samples) => Math.min(...samples),
  );
  return others.map((time) => time / best);
}
