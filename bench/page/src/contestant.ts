import { type Clock, now } from "../../../client/src/timing/clock.js";
import {
  type Contestant,
  callsPerSample,
  confirmed,
  sampleNs,
} from "../../../client/src/timing/samples.js";

/** A contestant like the client's, for engines whose call answers a promise. */
export interface AsyncContestant {
  readonly calls: number;
  callAsync(): Promise<void>;
}

/** One thing to be timed. `flops` is of one call, on so many threads. */
export interface Entrant {
  readonly name: string;
  readonly threads: number;
  readonly flops: number;
  readonly difference: number | null;
  readonly timed: Contestant | AsyncContestant;
  dispose(): void;
}

async function sampleAsyncNs({ calls, callAsync }: AsyncContestant, clock: Clock): Promise<number> {
  const start = clock();
  for (let i = 0; i < calls; i++) await callAsync();
  return ((clock() - start) * 1e6) / calls;
}

/**
 * Runs `work` that many frames deeper. TensorFlow.js's product is 2 to 2.6 times slower at some
 * offsets of the native stack (4.22, Chromium 156), so every round has a depth of its own.
 */
function atDepth<T>(frames: number, work: () => T): T {
  return frames === 0 ? work() : atDepth(frames - 1, work);
}

const DEPTHS = 64;
const DEPTH_STEP = 29;

const depthOf = (round: number): number => (round * DEPTH_STEP) % DEPTHS;

async function sampleOf({ timed }: Entrant, round: number): Promise<number> {
  return atDepth(depthOf(round), () =>
    "call" in timed ? sampleNs(timed) : sampleAsyncNs(timed, now),
  );
}

/**
 * The client's interleaved rounds where some answer promises: at least `least`, at most `most`,
 * until every best sample is confirmed. Answers the samples of each entrant.
 */
export async function compete(
  entrants: readonly Entrant[],
  { least, most }: { readonly least: number; readonly most: number },
): Promise<readonly (readonly number[])[]> {
  const all = entrants.map((): number[] => []);
  const count = entrants.length;
  for (let round = 0; round < most; round++) {
    if (round >= least && all.every(confirmed)) break;
    const first = round * Math.ceil(count / 2);
    for (let i = first; i < first + count; i++) {
      (all[i % count] as number[]).push(await sampleOf(entrants[i % count] as Entrant, round));
    }
  }
  return all;
}

const WARM_CALLS = 8;
const WARM_MS = 300;

/** Calls an engine until its hot code is optimised, and sizes its samples. */
export async function warmAsync(
  callAsync: () => Promise<void>,
  stepMs: number,
): Promise<AsyncContestant> {
  const times: number[] = [];
  for (const start = now(); times.length < WARM_CALLS || now() - start < WARM_MS; ) {
    const before = now();
    await callAsync();
    times.push(now() - before);
  }
  return { calls: callsPerSample(Math.min(...times), stepMs), callAsync };
}
