import { type Clock, now } from "../timing/clock.js";

/** A run that takes longer than this, and longer than so many usual ones, does not end. */
const LEAST_MS = 4_000;
const USUAL = 20;
/** What the shortest run of late is worth at the next: a device may become slower. */
const FORGOTTEN = 1.05;
/** How often a run that is under way is looked at. */
export const LOOK_MS = 1_000;
const LATE_MS = 2 * LOOK_MS;

/**
 * Tells that a run does not end: a worker in a loop answers nothing. Of the first run it cannot be told,
 * as nobody knows how long weights are on their way.
 */
export class Patience {
  readonly #clock: Clock;
  #usualMs = Number.POSITIVE_INFINITY;
  #beganMs = 0;
  #lookedMs = 0;

  constructor(clock: Clock = now) {
    this.#clock = clock;
  }

  /** A run begins before which no other is under way. */
  begin(): void {
    this.#beganMs = this.#clock();
    this.#lookedMs = this.#beganMs;
  }

  /** It has ended, and the next begins where there is one. */
  end(): void {
    const nowMs = this.#clock();
    this.#usualMs = Math.min(FORGOTTEN * this.#usualMs, nowMs - this.#beganMs);
    this.#beganMs = nowMs;
  }

  /** Whether the run does not end, by now. */
  look(): boolean {
    const nowMs = this.#clock();
    // A page that was frozen, or busy itself, may not have heard of the end yet.
    if (nowMs - this.#lookedMs > LATE_MS) this.#beganMs = nowMs;
    this.#lookedMs = nowMs;
    return nowMs - this.#beganMs > Math.max(LEAST_MS, USUAL * this.#usualMs);
  }
}
