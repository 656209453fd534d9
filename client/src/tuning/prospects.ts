/**
 * Chooses the workload to measure next: the one in which most time of an inference is won for the
 * time that measuring takes.
 */

export interface Prospect {
  readonly workload: string;
  /** The milliseconds of an inference that all its calls take together. */
  readonly inferenceMs: number;
  readonly callMs: number;
  /** Best expected time of a candidate that is left, over that of the kernel that runs; null: unknown. */
  readonly expected: number | null;
  /** Candidates that were measured since the last that was better. */
  readonly inVain: number;
}

/**
 * The share of the time that a candidate is expected to save of which nothing is known, neither by
 * measurements nor by the zoo's cost model; it falls with each candidate that was no faster.
 */
const HOPED = 0.1;
const LESS = 0.85;
/**
 * The least share that a candidate is expected to save, as what others measured, or a model
 * foretells, may not hold here.
 */
const LEAST = 0.01;
/** The time to set a candidate up, and the number of calls of it and of the kernel that runs. */
const SET_UP_MS = 40;
const CALLS = 10;

/** Share of the workload's time that one more candidate is expected to save. */
const gain = ({ expected, inVain }: Prospect): number =>
  Math.max(expected === null ? HOPED : 1 - expected, LEAST) * LESS ** inVain;

const worth = (prospect: Prospect): number =>
  (prospect.inferenceMs * gain(prospect)) / (SET_UP_MS + CALLS * prospect.callMs);

/** The workload to measure next; undefined where there is none. */
export const best = (prospects: readonly Prospect[]): Prospect | undefined =>
  prospects.reduce<Prospect | undefined>(
    (first, next) => (first === undefined || worth(next) > worth(first) ? next : first),
    undefined,
  );
