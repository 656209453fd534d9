/** One thing to be timed on the GPU, and the rounds in which all take turns. */
import { now } from "../../../../client/src/timing/clock.js";
import type { Encode, PassClock } from "./pass-clock.js";

/** `flops` and `bytes` are of one call; `bytes` are those that it must at least read. */
export interface GpuEntrant {
  readonly name: string;
  readonly flops: number;
  readonly bytes: number;
  /** Of a call: the labels of their shaders. */
  readonly dispatches: readonly string[];
  /** Mean of the framework's own profile of its kernels, where it has one. */
  readonly profiledNs: number | null;
  /** Largest difference to the reference's output; null where there is none to compare. */
  readonly difference: number | null;
  readonly clock: PassClock;
  /** The dispatches of a call, good until the next call. */
  kernel(): Promise<Encode>;
  /** What a page does for one result; null for a loop that is only a limit. */
  readonly caller: Caller | null;
  dispose(): void;
}

export interface Caller {
  /** Hands one call to the GPU. */
  call(): Promise<void> | void;
  /** Until the GPU has done all calls. */
  settle(): Promise<void>;
}

/** Nanoseconds of each round: of the kernel alone, and of a call among many without a read-back. */
export interface GpuSamples {
  readonly kernelNs: readonly number[];
  readonly callNs: readonly number[];
}

/** Samples of calls last this long: the one wait at their end is then a few per cent. */
const CALLS_MS = 40;
const MOST_CALLS = 4096;

async function callsMs({ call, settle }: Caller, calls: number): Promise<number> {
  const start = now();
  for (let i = 0; i < calls; i++) await call();
  await settle();
  return now() - start;
}

async function sizedCalls(caller: Caller): Promise<number> {
  for (let calls = 1; ; ) {
    const ms = await callsMs(caller, calls);
    if (ms >= CALLS_MS || calls >= MOST_CALLS) return calls;
    calls = Math.min(Math.ceil(calls * Math.min((1.2 * CALLS_MS) / ms, 8)) + 1, MOST_CALLS);
  }
}

interface Sized {
  readonly entrant: GpuEntrant;
  readonly inPass: number;
  readonly inCalls: number;
  readonly kernelNs: number[];
  readonly callNs: number[];
}

async function sized(entrant: GpuEntrant): Promise<Sized> {
  const { calls } = await entrant.clock.sized(await entrant.kernel());
  const inCalls = entrant.caller === null ? 0 : await sizedCalls(entrant.caller);
  return { entrant, inPass: calls, inCalls, kernelNs: [], callNs: [] };
}

async function sample({ entrant, inPass, inCalls, kernelNs, callNs }: Sized): Promise<void> {
  const { clock, caller } = entrant;
  kernelNs.push(((await clock.passMs(await entrant.kernel(), inPass)) * 1e6) / inPass);
  if (caller !== null) callNs.push(((await callsMs(caller, inCalls)) * 1e6) / inCalls);
}

/** Interleaved rounds: each starts half-way around from the one before. At most `limitMs`, once
 * the first three are done. */
export async function contest(
  entrants: readonly GpuEntrant[],
  rounds: number,
  limitMs: number,
): Promise<readonly GpuSamples[]> {
  const start = now();
  const all: Sized[] = [];
  for (const entrant of entrants) all.push(await sized(entrant));
  const count = all.length;
  for (let round = 0; round < rounds; round++) {
    if (round >= 3 && now() - start > limitMs) break;
    const first = round * Math.ceil(count / 2);
    for (let i = first; i < first + count; i++) await sample(all[i % count] as Sized);
  }
  return all;
}
