import { type Clock, now } from "../timing/clock.js";

/** A run that takes longer than this, and longer than so many usual ones, does not end. */
const LEAST_MS = 4_000;
const USUAL = 20;
/**
 * The factor by which the shortest time of late grows with each run, as a device may become slower.
 */
const FORGOTTEN = 1.05;
/** The milliseconds between two looks at a run that is under way. */
export const LOOK_MS = 1_000;
const LATE_MS = 2 * LOOK_MS;

/**
 * Tells when a run does not end: a worker in a loop answers nothing. It never says so of the first
 * run, as nobody knows how long weights are on their way.
 */
export class HangDetector {
  readonly #clock: Clock;
  #usualMs = Number.POSITIVE_INFINITY;
  #beganMs = 0;
  #lookedMs = 0;

  constructor(clock: Clock = now) {
    this.#clock = clock;
  }

  /** A run begins while no other is under way. */
  begin(): void {
    this.#beganMs = this.#clock();
    this.#lookedMs = this.#beganMs;
  }

  /** A run has ended, and the next begins where there is one. */
  end(): void {
    const nowMs = this.#clock();
    this.#usualMs = Math.min(FORGOTTEN * this.#usualMs, nowMs - this.#beganMs);
    this.#beganMs = nowMs;
  }

  /** Returns true where the run that is under way does not end. */
  look(): boolean {
    const nowMs = this.#clock();
    // A page that was frozen, or busy itself, may not have heard of the end yet.
    if (nowMs - this.#lookedMs > LATE_MS) this.#beganMs = nowMs;
    this.#lookedMs = nowMs;
    return nowMs - this.#beganMs > Math.max(LEAST_MS, USUAL * this.#usualMs);
  }
}
