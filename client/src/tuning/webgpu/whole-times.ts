/** Times the whole with one choice of kernels and with another in turns, on a GPU. */
import type { Sliced } from "../../backend/webgpu/binding.js";
import { type GpuActivity, raiseClock } from "../../backend/webgpu/clock.js";
import { gpuSampleNs } from "../../backend/webgpu/sample.js";
import type { GpuTimer } from "../../backend/webgpu/timer.js";
import { now } from "../../timing/clock.js";
import type { Chosen, Pair, Trial } from "../sum-choice.js";

const LIMIT_MS = 20_000;
const PAIRS = 5;

/** A whole as it is timed: so many `calls` to a sample, at each of several places of a text. */
export interface TimedWhole {
  readonly calls: number;
  readonly places: readonly number[];
  readonly goTo: (place: number) => void;
}

/** Sums over the places, of both choices of a trial in turns. Throws KernelZooError: run, timeout. */
export async function pairsOf(
  timer: GpuTimer,
  activity: GpuActivity,
  choices: readonly [chosen: Sliced, instead: Sliced],
  { calls, places, goTo }: TimedWhole,
): Promise<readonly Pair[]> {
  await raiseClock(timer, choices[0], activity, now() + LIMIT_MS);
  const pairs: Pair[] = [];
  for (let pair = 0; pair < PAIRS; pair++) {
    const sums: [number, number] = [0, 0];
    for (const place of places) {
      for (const which of pair % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
        goTo(place);
        const until = now() + LIMIT_MS;
        sums[which] += await gpuSampleNs(timer, choices[which], { calls, passes: 1 }, until);
      }
    }
    pairs.push(sums);
  }
  activity.lastMs = now();
  return pairs;
}

/**
 * Carries a search out, and answers what it began with and what it chose; where its time is over,
 * what it has chosen so far.
 */
export async function searched(
  search: Generator<Trial, Chosen, readonly Pair[]>,
  pairs: (trial: Trial) => Promise<readonly Pair[]>,
  untilMs = Number.POSITIVE_INFINITY,
): Promise<{ readonly first: Chosen; readonly chosen: Chosen }> {
  let next = search.next();
  const first = next.done ? next.value : next.value.chosen;
  let chosen = first;
  while (!next.done && now() < untilMs) {
    chosen = next.value.chosen;
    next = search.next(await pairs(next.value));
  }
  return { first, chosen: next.done ? next.value : chosen };
}
