import type { Gate } from "../agent/pauses.js";
import { type Clock, now } from "../timing/clock.js";

/** From the beginning of a lull on, anything may begin: some lulls are shorter than any work. */
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
  #begun: Promise<void>;
  #tellBegun: () => void = () => undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(clock: Clock = now) {
    this.#clock = clock;
    this.#begun = this.#next();
  }

  /** No inference is under way any more. */
  begin(): void {
    this.#beganMs ??= this.#clock();
    this.#tellBegun();
  }

  /** An inference was asked for. */
  end(): void {
    if (this.#beganMs === null) return;
    this.#lastedMs = [this.#lastedMs[1], this.#clock() - this.#beganMs];
    this.#beganMs = null;
    this.#begun = this.#next();
  }

  /** Open while work of `ms` may begin. */
  gate(ms: number): Pick<Gate, "isOpen" | "pass"> {
    const waitMs = (): number => this.#waitMs(ms);
    const pass = (): Promise<void> => this.#pass(waitMs());
    return {
      get isOpen() {
        return waitMs() <= 0;
      },
      pass,
    };
  }

  /** One piece of work after another, each begun where it takes `ms`. */
  within<T>(ms: number, work: () => Promise<T>): Promise<T> {
    const gate = this.gate(ms);
    const worked = this.#last.then(async () => {
      while (!gate.isOpen) await gate.pass();
      return work();
    });
    this.#last = worked.catch(() => undefined);
    return worked;
  }

  #waitMs(ms: number): number {
    if (this.#beganMs === null) return Number.POSITIVE_INFINITY;
    const passedMs = this.#clock() - this.#beganMs;
    const lastsMs = Math.min(...this.#lastedMs);
    if (passedMs < BEGINNING_MS || passedMs + ms <= (1 - MARGIN) * lastsMs) return 0;
    return lastsMs + LATE_MS - passedMs;
  }

  #pass(waitMs: number): Promise<void> {
    if (waitMs === Number.POSITIVE_INFINITY) return this.#begun;
    return new Promise((resolve) => setTimeout(resolve, waitMs));
  }

  #next(): Promise<void> {
    return new Promise((resolve) => {
      this.#tellBegun = resolve;
    });
  }
}
