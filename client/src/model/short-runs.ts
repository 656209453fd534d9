/** Finds plans that are over before a message has come to a worker and back. */
import type { CallTimes } from "../backend/wasm/dispatch.js";

/** Runs of a short plan take less: the page itself may be held up for as long by each. */
export const SHORT_MS = 0.2;
/** So many runs are looked at together, as clocks of some pages have steps of a millisecond. */
export const LOOKED_AT = 16;

/** Owns the times of the runs of late. */
export class ShortRuns {
  #elapsedMs = 0;
  #runs = 0;

  /** Takes the times of a run's calls; true once so many runs were short on average. */
  areShort(times: CallTimes): boolean {
    // The last call ends the run. Runs that tell no times are never short.
    const [startMs = Number.NaN, elapsedMs = Number.NaN] = times.slice(-3);
    this.#elapsedMs += startMs + elapsedMs;
    if (++this.#runs < LOOKED_AT) return false;
    const short = this.#elapsedMs < LOOKED_AT * SHORT_MS;
    this.#elapsedMs = this.#runs = 0;
    return short;
  }
}
