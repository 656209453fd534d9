/**
 * The ends of a run's submissions, as shares of its calls. In one submission RoBERTa's outputs of
 * 97 calls are there after 4.6 ms, in four equal ones after 3.7; the GPU computes for 3.0 (H200).
 * The first one is shorter, as nothing computes meanwhile.
 */
const SUBMISSIONS = [1 / 7, 3 / 7, 5 / 7, 1];
/** A run of fewer calls is one submission, as each submission takes time, too. */
const FEWEST_CALLS = 28;

/** The submission of a run, by its number, after which so many of all calls have run. */
export function submissionAfter(ready: number, calls: number): number {
  return submissionsOf(calls).findIndex((start) => start >= Math.max(1, ready)) - 1;
}

/** The first call of each submission of a run, and the number of all calls. */
export function submissionsOf(calls: number): readonly number[] {
  const ends = calls < FEWEST_CALLS ? [1] : SUBMISSIONS;
  return [0, ...ends.map((share) => Math.round(share * calls))];
}
