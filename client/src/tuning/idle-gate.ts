import { type Clock, now } from "../timing/clock.js";

/**
 * Within so long of the beginning of a lull, work that takes longer than the lull may begin, too:
 * some lulls are shorter than any work.
 */
const BEGINNING_MS = 1;
/** An inference that has not come so long after it was expected is expected no more. */
const LATE_MS = 10;
/** Work may last longer than expected, and a lull be shorter, by this part of the lull. */
const MARGIN = 0.05;
/** The factor by which the longest time of late shrinks with each piece of work. */
const KEPT = 0.8;
const LONGEST_MS = 50;

/**
 * Keeps the lulls, which are the times between two inferences. Work that cannot be stopped once it
 * has begun is begun where it most likely ends before the next inference, by the shorter of the two
 * lulls before: otherwise the inference would share the cores with it. One lull alone tells little,
 * as a page that was busy elsewhere may just have made a long one.
 */
export class Lulls {
  readonly #clock: Clock;
  #beganMs: number | null = null;
  /** The milliseconds that the last two lulls lasted. */
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

  /**
   * Makes a gate for work that takes `ms` at first; where no lull is as long, it begins in one of
   * `oneOf` lulls.
   */
  gate(ms: number, oneOf = 1): LullGate {
    return new LullGate(this, ms, oneOf);
  }

  /** Does one piece of work after another, each begun as `gate` says. */
  within<T>(work: () => Promise<T>, gate: LullGate): Promise<T> {
    const worked = this.#last.then(async () => {
      while (!gate.isOpen) await gate.pass();
      gate.begin();
      return work();
    });
    this.#last = worked.catch(() => undefined);
    return worked;
  }

  /** The number of lulls that there have been. */
  get count(): number {
    return this.#count;
  }

  now(): number {
    return this.#clock();
  }

  /** Milliseconds of the lull so far, and what it is likely to last; null while an inference runs. */
  get current(): { readonly passedMs: number; readonly lastsMs: number } | null {
    if (this.#beganMs === null) return null;
    return { passedMs: this.#clock() - this.#beganMs, lastsMs: Math.min(...this.#lastedMs) };
  }

  /** Resolves with the next lull, and after `waitMs` at the latest. */
  next(waitMs: number): Promise<void> {
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

/** Says when work of one kind may begin, by what it took of late. */
export class LullGate {
  readonly #lulls: Lulls;
  readonly #oneOf: number;
  #ms: number;
  #beganMs = 0;
  /** The lull in which work has begun last. */
  #used = 0;

  constructor(lulls: Lulls, ms: number, oneOf: number) {
    this.#lulls = lulls;
    this.#ms = ms;
    this.#oneOf = oneOf;
  }

  get isOpen(): boolean {
    return this.#waitMs <= 0;
  }

  pass(): Promise<void> {
    return this.#lulls.next(this.#waitMs);
  }

  /** Work begins. */
  begin(): void {
    this.#used = this.#lulls.count;
    this.#beganMs = this.#lulls.now();
  }

  /**
   * Work has ended. What it took counts up to `LONGEST_MS`: longer work has waited for something.
   */
  end(): void {
    const tookMs = Math.min(this.#lulls.now() - this.#beganMs, LONGEST_MS);
    this.#ms = Math.max(tookMs, KEPT * this.#ms);
  }

  get #waitMs(): number {
    const { current, count } = this.#lulls;
    if (current === null) return Number.POSITIVE_INFINITY;
    const { passedMs, lastsMs } = current;
    if (passedMs + this.#ms <= (1 - MARGIN) * lastsMs) return 0;
    const sinceUsed = count - this.#used;
    if (passedMs < BEGINNING_MS && (sinceUsed === 0 || sinceUsed >= this.#oneOf)) return 0;
    return lastsMs + LATE_MS - passedMs;
  }
}
