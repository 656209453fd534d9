/** Verify, warm up, time: what becomes of one wasm candidate inside a turn. */
import type { KernelInstance } from "../engine/instance.js";
import { now } from "../timing/clock.js";
import { callsPerSample, sampleNs, samplerOf } from "../timing/samples.js";
import { warmUp } from "../timing/warmup.js";
import type { KernelWire, Lease, MeasurementWire } from "../wire/types.js";
import type { Bench } from "./bench.js";
import {
  compare,
  deadlineMs,
  late,
  measurementOf,
  REFERENCE_BUDGET_MS,
  rankAgain,
  sampledEntries,
  screen,
} from "./screen.js";

/** An instance in its optimised tier, with the estimated time of one call. */
export interface Warm {
  readonly instance: KernelInstance;
  readonly callMs: number;
}

/** The reference kernel, with its output on the lease's inputs. */
export interface Reference extends Warm {
  readonly output: Float32Array;
}

const PATIENCE_MS = 25;
const WARM_UP_LIMIT_MS = 150;

/** Runs every entry at least once. Throws KernelZooError: run, timeout. */
function warm(instance: KernelInstance, stepMs: number, untilMs: number): Warm {
  const result = warmUp(instance, {
    stepMs,
    patienceMs: PATIENCE_MS,
    limitMs: WARM_UP_LIMIT_MS,
    deadlineMs: untilMs,
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

/**
 * Measures one candidate: one pass in slices writes the whole output and warms the code up, then
 * the output is compared, then the rounds are timed. Nothing else of this thread runs until the
 * promise resolves. Rejects with KernelZooError and its stage.
 */
export async function measure(
  bench: Bench,
  lease: Lease,
  reference: Reference,
  kernel: KernelWire,
  module: WebAssembly.Module,
  stepMs: number,
): Promise<MeasurementWire> {
  const untilMs = deadlineMs(reference.callMs);
  bench.clearOutput();
  const ready = warm(bench.bind(kernel, module), stepMs, untilMs);
  compare(bench.output, reference.output, lease.tolerance);
  const entries = sampledEntries(lease, bench.output);
  const calls = Math.max(calibrated(ready, stepMs), calibrated(reference, stepMs));
  const sampler = ({ instance }: Warm) => samplerOf({ calls, call: instance.runAll });
  const samples = await screen(sampler(ready), sampler(reference), untilMs);
  return measurementOf(kernel, entries, samples, calls);
}

/** Relative times of `kernels` from rounds in which all of them and the reference take part. */
export async function measureAgain(
  bench: Bench,
  reference: Reference,
  kernels: readonly (readonly [KernelWire, WebAssembly.Module])[],
  stepMs: number,
): Promise<readonly number[]> {
  const ready = kernels.map(([kernel, module]) =>
    warm(bench.bind(kernel, module), stepMs, now() + REFERENCE_BUDGET_MS),
  );
  const sampler = (each: Warm) =>
    samplerOf({ calls: calibrated(each, stepMs), call: each.instance.runAll });
  return rankAgain(sampler(reference), ready.map(sampler));
}
