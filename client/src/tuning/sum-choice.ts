/**
 * Chooses the kernels of a model by what the whole takes, such as a token of a language model. Alone
 * a kernel finds its weights in the GPU's cache and waits for nothing before it, and it is timed at
 * one place of a text: the fastest alone need not be the fastest in the whole.
 */
import { median } from "../model/profile.js";

/** A workload of the whole, and what its kernels take alone. */
export interface Contested {
  readonly workload: string;
  readonly calls: number;
  /** Candidates with their nanoseconds, in any order. */
  readonly alone: readonly (readonly [candidate: string, ns: number])[];
  /** The candidate that runs now, which is tried whatever it takes alone. */
  readonly runs?: string;
}

/** A candidate for each workload. */
export type Chosen = ReadonlyMap<string, string>;

/** The whole is timed with either choice in turns. */
export interface Trial {
  readonly chosen: Chosen;
  readonly instead: Chosen;
}

/** Times of the whole, of both choices of a trial, one after the other. */
export type Pair = readonly [chosen: number, instead: number];

/** A candidate that takes so many times as long alone as the fastest does not win in the whole. */
const NEAR = 1.25;
/** Candidates of a workload that are tried, besides the fastest alone. */
const MOST = 4;
/** The whole has to gain so much, in so many of the pairs. */
const MARGIN = 0.003;
const SHARE = 0.75;

const better = (pairs: readonly Pair[]): boolean => {
  const ratios = pairs.map(([chosen, instead]) => instead / chosen);
  const faster = ratios.filter((ratio) => ratio < 1).length;
  return median(ratios) < 1 - MARGIN && faster >= SHARE * pairs.length;
};

/**
 * Begins with the fastest alone, and asks for one candidate in the place of another at a time:
 * first for workloads that take most, and of each for the candidates that are the fastest alone.
 * `next` is given the times of a trial.
 */
export function* chosenBySum(
  contested: readonly Contested[],
): Generator<Trial, Chosen, readonly Pair[]> {
  const ranked = contested
    .filter(({ alone }) => alone.length > 0)
    .map(({ workload, calls, alone, runs }) => {
      const sorted = alone.toSorted(([, left], [, right]) => left - right);
      const [first, least] = sorted[0] as readonly [string, number];
      const isTried = ([id, ns]: (typeof alone)[number]) => ns <= NEAR * least || id === runs;
      const others = sorted.slice(1, 1 + MOST).filter(isTried);
      return { workload, first, others, takes: calls * least };
    })
    .sort((left, right) => right.takes - left.takes);
  let chosen: Chosen = new Map(ranked.map(({ workload, first }) => [workload, first]));
  for (const { workload, others } of ranked) {
    for (const [candidate] of others) {
      const instead = new Map(chosen).set(workload, candidate);
      if (better(yield { chosen, instead })) chosen = instead;
    }
  }
  return chosen;
}
