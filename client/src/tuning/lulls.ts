import type { Gate } from "../agent/pauses.js";
import { type Clock, now } from "../timing/clock.js";

/**
 * From the beginning of a lull on, what takes longer than the lull may begin, too: some are shorter than
 * any work.
 */
const BEGINNING_MS = 1;
/** Where no inference has come so long after it was expected, none is expected any more. */
const LATE_MS = 10;
/** Work may last longer than expected, and a lull be shorter, by this part of the lull. */
const MARGIN = 0.05;

/**
 * Time between two inferences. What cannot be stopped once it has begun is begun where it most likely
 * ends before the next inference, by the shorter of the two lulls before: else that shares the cores
 * with it. One lull alone tells little, as a page that was busy elsewhere may just have made a long one.
 */
export class Lulls {
  readonly #clock: Clock;
  #beganMs: number | null = null;
  /** What the last two lulls lasted. */
  #lastedMs: readonly [number, number] = [0, 0];
  #count = 0;
  /** Resolves when the next lull begins. */
  #next: Promise<void>;
  #tellBegun: () => void = () => undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(clock: Clock = now) {
    this.#clock = clock;
    this.#next = this.#nextBegun();
  }

  /** No inference is under way any more. */
  begin(): void {
    if (this.#beganMs !== null) return;
    this.#beganMs = this.#clock();
    this.#count += 1;
    this.#tellBegun();
    this.#next = this.#nextBegun();
  }

  /** An inference was asked for. */
  end(): void {
    if (this.#beganMs === null) return;
    this.#lastedMs = [this.#lastedMs[1], this.#clock() - this.#beganMs];
    this.#beganMs = null;
  }

  /** Open while work of `ms` may begin; where no lull is as long, in one of so many. */
  gate(ms: number, oneOf = 1): Pick<Gate, "isOpen" | "pass"> {
    const waitMs = (): number => this.#waitMs(ms, oneOf);
    const pass = (): Promise<void> => this.#pass(waitMs());
    return {
      get isOpen() {
        return waitMs() <= 0;
      },
      pass,
    };
  }

  /** One piece of work after another, each begun as `gate` says. */
  within<T>(work: () => Promise<T>, ms: number, oneOf = 1): Promise<T> {
    const gate = this.gate(ms, oneOf);
    const worked = this.#last.then(async () => {
      while (!gate.isOpen) await gate.pass();
      return work();
    });
    this.#last = worked.catch(() => undefined);
    return worked;
  }

  #waitMs(ms: number, oneOf: number): number {
    if (this.#beganMs === null) return Number.POSITIVE_INFINITY;
    const passedMs = this.#clock() - this.#beganMs;
    const lastsMs = Math.min(...this.#lastedMs);
    if (passedMs + ms <= (1 - MARGIN) * lastsMs) return 0;
    if (passedMs < BEGINNING_MS && this.#count % oneOf === 0) return 0;
    return lastsMs + LATE_MS - passedMs;
  }

  #pass(waitMs: number): Promise<void> {
    const next = this.#next;
    if (waitMs === Number.POSITIVE_INFINITY) return next;
    return new Promise((resolve) => {
      setTimeout(resolve, waitMs);
      next.then(resolve);
    });
  }

  #nextBegun(): Promise<void> {
    return new Promise((resolve) => {
      this.#tellBegun = resolve;
    });
  }
}
