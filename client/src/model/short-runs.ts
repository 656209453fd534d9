/** Finds plans that are over before a message has come to a worker and back. */

/** Runs of a short plan take less: the page itself may be held up for as long by each. */
const SHORT_MS = 0.2;
/** So many runs are looked at together, as clocks of some pages have steps of a millisecond. */
export const LOOKED_AT = 16;
/** So many of them, the longest, say what else the machine did. */
const DISTURBED = 4;

/** Owns the times of the runs of late. */
export class ShortRuns {
  readonly #timesMs: number[] = [];

  /** Takes the time of a run; says whether the last ones were short on average, once in so many. */
  areShort(elapsedMs: number): boolean | undefined {
    if (this.#timesMs.push(elapsedMs) < LOOKED_AT) return undefined;
    const undisturbed = this.#timesMs.splice(0).sort((a, b) => a - b);
    undisturbed.length -= DISTURBED;
    // Of runs that told no time the sum is no number.
    return undisturbed.reduce((sum, ms) => sum + ms) < undisturbed.length * SHORT_MS;
  }
}
