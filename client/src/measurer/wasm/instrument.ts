/** Measures wasm candidates: each is verified, warmed up and timed inside a turn. */
import { Arena } from "../../engine/arena.js";
import type { KernelInstance } from "../../engine/instance.js";
import { loadPacks } from "../../engine/packing.js";
import type { OutputView } from "../../engine/tensors.js";
import {
  callsPerSample,
  restingSampler,
  type Sampler,
  sampleNs,
  samplerOf,
} from "../../timing/samples.js";
import { type Sliceable, type Warmth, warmingUp } from "../../timing/warmup.js";
import type { KernelWire, MeasurementWire } from "../../wire/types.js";
import {
  type Instrument,
  type LeaseInstrument,
  type ReferenceFailed,
  tellReference,
} from "../instrument.js";
import type { LoadKernel } from "../kernel-cache.js";
import type { Subject } from "../measurement.js";
import {
  compare,
  deadlineMs,
  failureOf,
  late,
  measurementOf,
  type Pacing,
  REFERENCE_BUDGET_MS,
  rankAgain,
  sampledEntries,
  screen,
  UNDISTURBED,
} from "../measurement.js";
import { compiledAnew, preparationOf } from "../preparation-cost.js";
import { Bench } from "./bench.js";

/** An instance in its optimised tier, with the estimated time of one call. */
export interface Warm {
  readonly instance: KernelInstance;
  readonly callMs: number;
}

/** The reference kernel, with its output and its states on the lease's inputs. */
export interface Reference extends Warm {
  readonly output: OutputView;
  readonly states: readonly OutputView[];
}

const PATIENCE_MS = 25;
const WARM_UP_LIMIT_MS = 150;

/** Runs every entry at least once, until the code is fast. Throws KernelZooError: run, timeout. */
export async function warm(
  kernel: Sliceable,
  stepMs: number,
  untilMs: number,
  { rest, clock }: Pacing,
): Promise<Warmth> {
  const limits = {
    stepMs,
    patienceMs: PATIENCE_MS,
    limitMs: WARM_UP_LIMIT_MS,
    deadlineMs: untilMs,
  };
  const slices = warmingUp(kernel, limits, clock);
  for (;;) {
    const { done, value } = slices.next();
    if (done !== true) {
      if (rest !== null) await rest();
      continue;
    }
    if (value.kind === "late") throw late();
    return value;
  }
}

async function warmed(
  instance: KernelInstance,
  stepMs: number,
  untilMs: number,
  pacing: Pacing,
): Promise<Warm & Warmth> {
  return { instance, ...(await warm(instance, stepMs, untilMs, pacing)) };
}

/** Samples time the beginning of a longer call: agents shall stay within the time of a lease. */
const LONG_CALL_MS = 100;

const shareOf = ({ callMs }: Warm): number => Math.min(1, LONG_CALL_MS / callMs);

/** Samples of as many calls each, of which `share` is run; they tell the time of whole calls. */
export const sampling =
  (calls: number, share: number, { rest, clock }: Omit<Pacing, "hopeless">) =>
  ({ instance, callMs }: Warm): Sampler => {
    const { extent, run, runAll } = instance;
    const units = Math.max(1, Math.round(share * extent));
    const part = { calls, callMs: (callMs * units) / extent };
    const call = units === extent ? runAll : () => run(0, units);
    const sampler =
      rest === null
        ? samplerOf({ calls, call })
        : restingSampler({ extent: units, run }, part, rest, clock);
    return async () => ((await sampler()) * extent) / units;
  };

/** Calls a sample needs; one trial sample corrects an estimate from a slower tier. */
function calibrated({ instance, callMs }: Warm, stepMs: number): number {
  const calls = callsPerSample(callMs, stepMs);
  if (calls === 1) return 1;
  const trialNs = sampleNs({ calls, call: instance.runAll });
  return Math.max(calls, callsPerSample(trialNs / 1e6, stepMs));
}

/** Warms the reference up and keeps its output. Throws KernelZooError when it cannot. */
export async function setReference(
  bench: Bench,
  kernel: KernelWire,
  module: WebAssembly.Module,
  stepMs: number,
  pacing = UNDISTURBED,
): Promise<Reference> {
  const untilMs = pacing.clock() + REFERENCE_BUDGET_MS;
  const ready = await warmed(bench.bind(kernel, module), stepMs, untilMs, pacing);
  bench.settle(ready.instance);
  const states = bench.states.map((state) => state.slice());
  return { ...ready, output: bench.output.slice(), states };
}

/**
 * Measures one candidate: one pass in slices writes the whole output and warms the code up, then
 * the output is compared, then the rounds are timed. Nothing else of this thread runs until the
 * promise resolves, but in the rests of `pacing`. With its `bytes` it is compiled once more, so that
 * what precedes its warm runs is measured, too. Rejects with KernelZooError and its stage.
 */
export async function measure(
  bench: Bench,
  subject: Subject,
  reference: Reference,
  kernel: KernelWire,
  module: WebAssembly.Module,
  stepMs: number,
  pacing = UNDISTURBED,
  bytes: Uint8Array<ArrayBuffer> | null = null,
): Promise<MeasurementWire> {
  const { clock, hopeless } = pacing;
  const untilMs = deadlineMs(reference.callMs, clock);
  bench.clearOutput();
  const bind = (code: WebAssembly.Module) => bench.bind(kernel, code);
  const bound = bind(module);
  const fresh = bytes && compiledAnew(bytes, bind, clock);
  const ready = await warmed(fresh?.instance ?? bound, stepMs, untilMs, pacing);
  const preparation = fresh && preparationOf(fresh.compileMs, bench.packMs(kernel), ready);
  bench.settle(ready.instance);
  compare(bench.output, reference.output, subject.tolerance);
  for (const [i, state] of bench.states.entries()) {
    compare(state, reference.states[i] as OutputView, subject.tolerance);
  }
  const entries = sampledEntries(subject, bench.output);
  if (ready.callMs > hopeless * reference.callMs) {
    const [own, beside] = [ready, reference].map(({ callMs }) => [1e6 * callMs]);
    return measurementOf(
      kernel,
      entries,
      { own: own ?? [], reference: beside ?? [] },
      1,
      preparation,
    );
  }
  const share = shareOf(reference);
  const calls = share < 1 ? 1 : Math.max(calibrated(ready, stepMs), calibrated(reference, stepMs));
  const sampler = sampling(calls, share, pacing);
  const samples = await screen(sampler(ready), sampler(reference), untilMs, clock);
  return measurementOf(kernel, entries, samples, calls, preparation);
}

/** Relative times of `kernels` from rounds in which all of them and the reference take part. */
export async function measureAgain(
  bench: Bench,
  reference: Reference,
  kernels: readonly (readonly [KernelWire, WebAssembly.Module])[],
  stepMs: number,
  pacing = UNDISTURBED,
): Promise<readonly number[]> {
  const ready: Warm[] = [];
  for (const [kernel, module] of kernels) {
    const untilMs = pacing.clock() + REFERENCE_BUDGET_MS;
    ready.push(await warmed(bench.bind(kernel, module), stepMs, untilMs, pacing));
  }
  const share = shareOf(reference);
  const sampler = (kernel: Warm) =>
    sampling(share < 1 ? 1 : calibrated(kernel, stepMs), share, pacing)(kernel);
  return rankAgain(sampler(reference), ready.map(sampler));
}

function leaseInstrument(
  subject: Subject,
  bench: Bench,
  referenceModule: WebAssembly.Module,
  load: LoadKernel,
  stepMs: number,
  pacing: Pacing,
): LeaseInstrument {
  let known: Promise<Reference> | undefined;
  const reference = (): Promise<Reference> => {
    known ??= setReference(bench, subject.reference, referenceModule, stepMs, pacing);
    known.catch(() => {
      known = undefined;
    });
    return known;
  };
  const attempt = async (
    kernel: KernelWire,
    module: WebAssembly.Module,
    bytes: Uint8Array<ArrayBuffer>,
  ): Promise<MeasurementWire> => {
    const against = await reference();
    try {
      return await measure(bench, subject, against, kernel, module, stepMs, pacing, bytes);
    } catch (thrown) {
      bench.reset();
      return failureOf(kernel, thrown);
    }
  };
  return {
    async candidate(kernel) {
      try {
        const [module, bytes] = await Promise.all([load(kernel), load.bytes(kernel)]);
        return () => attempt(kernel, module, bytes);
      } catch (thrown) {
        return failureOf(kernel, thrown);
      }
    },
    async again(kernels) {
      const modules = await Promise.all(kernels.map(load));
      const pairs = kernels.map((kernel, i) => [kernel, modules[i] as WebAssembly.Module] as const);
      return async () => measureAgain(bench, await reference(), pairs, stepMs, pacing);
    },
    dispose: () => bench.dispose(),
  };
}

/** Measures in this thread, in one shared memory that grows with the workloads. */
export function wasmInstrument(
  load: LoadKernel,
  stepMs: number,
  referenceFailed: ReferenceFailed = () => undefined,
  pacing = UNDISTURBED,
): Instrument {
  const arena = new Arena();
  return {
    async open(subject, kernels) {
      // All fetches begin at once; whoever needs a kernel sees its failure.
      for (const kernel of kernels) load(kernel).catch(() => undefined);
      const all = [subject.reference, ...kernels];
      const reference = load(subject.reference);
      reference.catch((thrown) => tellReference(subject, thrown, referenceFailed));
      const [module, packs] = await Promise.all([reference, loadPacks(all, load)]);
      const bench = new Bench(arena, subject, all, packs);
      bench.reset();
      return leaseInstrument(subject, bench, module, load, stepMs, pacing);
    },
  };
}
