/** Things to be timed on the GPU, and the rounds in which they take turns. */
import type { Sliced } from "../../../../client/src/backend/webgpu/binding.js";
import { gpuSampleNs, shapeOf } from "../../../../client/src/backend/webgpu/sample.js";
import type { GpuTimer } from "../../../../client/src/backend/webgpu/timer.js";
import { now } from "../../../../client/src/timing/clock.js";
import { interleave, type Sampler } from "../../../../client/src/timing/samples.js";

/** The calls that a page makes for one result. */
export interface Caller {
  /** Hands one call to the GPU. */
  call(): Promise<void> | void;
  /** Resolves when the GPU has done all calls. */
  settle(): Promise<unknown>;
}

/** By the name of their samples. A batch is of calls that are handed over together. */
export interface Callers {
  readonly call?: Caller;
  readonly batched?: Caller;
}

/** `flops` and `bytes` are of one call; `bytes` are those that a loop reads. */
export interface GpuEntrant {
  readonly name: string;
  readonly flops: number;
  readonly bytes: number;
  /** The dispatches of a call: the labels of their shaders. */
  readonly dispatches: readonly string[];
  /** Mean of the framework's own profile of its kernels, where it has one. */
  readonly profiledNs: number | null;
  /** Largest difference to the right output; null where there is none to compare. */
  readonly difference: number | null;
  readonly timer: GpuTimer;
  /** The dispatches of a call, good until the next call. */
  kernel(): Promise<Sliced>;
  /** None for a loop that is only a limit. */
  readonly callers: Callers;
  dispose(): void;
}

/** Nanoseconds of each round: of the kernel alone, and of a call among many, waited for at once. */
export interface GpuSamples {
  readonly kernelNs: readonly number[];
  readonly callNs: readonly number[];
  /** Nanoseconds like `callNs`, of calls that are handed to the GPU several at once. */
  readonly batchedNs: readonly number[];
}

/** Rounds of a kernel that is timed in vain end after this long. */
const LIMIT_MS = 120_000;
/** Samples of calls last this long: the one wait at their end is then a few per cent. */
const CALLS_MS = 40;
const MOST_CALLS = 4096;
const RAMP = 8;

async function kernelSampler({ timer, kernel }: GpuEntrant): Promise<Sampler> {
  const work = await kernel();
  const callMs = (await timer.passNs((pass) => work.encode(pass), LIMIT_MS)) / 1e6;
  const shape = await shapeOf(timer, work, callMs, now() + LIMIT_MS);
  return async () => gpuSampleNs(timer, await kernel(), shape, now() + LIMIT_MS);
}

async function callsMs({ call, settle }: Caller, calls: number): Promise<number> {
  const start = now();
  for (let i = 0; i < calls; i++) await call();
  await settle();
  return now() - start;
}

async function callSampler(caller: Caller): Promise<Sampler> {
  let calls = 1;
  for (let ms = 0; ; ) {
    ms = await callsMs(caller, calls);
    if (ms >= CALLS_MS || calls >= MOST_CALLS) break;
    calls = Math.min(Math.ceil(calls * Math.min((1.2 * CALLS_MS) / ms, RAMP)) + 1, MOST_CALLS);
  }
  return async () => ((await callsMs(caller, calls)) * 1e6) / calls;
}

/** Answers the samples of each entrant from the same rounds. */
export async function contest(
  entrants: readonly GpuEntrant[],
  { least, most }: { readonly least: number; readonly most: number },
): Promise<readonly GpuSamples[]> {
  const samplers: Sampler[] = [];
  const at = async (sampler: Promise<Sampler>): Promise<number> => samplers.push(await sampler) - 1;
  const places = [];
  for (const entrant of entrants) {
    const { call, batched } = entrant.callers;
    places.push({
      kernel: await at(kernelSampler(entrant)),
      call: call === undefined ? -1 : await at(callSampler(call)),
      batched: batched === undefined ? -1 : await at(callSampler(batched)),
    });
  }
  const samples = await interleave(samplers, least, most);
  const of = (place: number): readonly number[] => samples[place] ?? [];
  return places.map(({ kernel, call, batched }) => ({
    kernelNs: of(kernel),
    callNs: of(call),
    batchedNs: of(batched),
  }));
}
