import type { WithTurn } from "../measurer/turns.js";

/** Longer than most inferences take: for these the turn is not given back. */
const LONG_MS = 2_000;

/**
 * A turn among the tabs of a browser, which this one gives back while something keeps it from measuring
 * for long: a tab that is hidden in its turn would keep all others from theirs.
 */
export class LentTurn {
  readonly #withTurn: WithTurn;
  readonly #longMs: number;
  /** True while work is under way that wants the turn. */
  #isWorking = false;
  /** Ends the turn; null without it. */
  #end: (() => void) | null = null;
  #paused = false;
  #pausing: ReturnType<typeof setTimeout> | undefined;

  constructor(withTurn: WithTurn, longMs = LONG_MS) {
    this.#withTurn = withTurn;
    this.#longMs = longMs;
  }

  /** Does `work` in a turn, one piece at a time. */
  async within<T>(work: () => T | Promise<T>): Promise<T> {
    this.#isWorking = true;
    try {
      await this.take();
      return await work();
    } finally {
      this.#isWorking = false;
      this.#giveBack();
    }
  }

  /** True while work has to `take` the turn before it goes on. */
  get isMissing(): boolean {
    return this.#isWorking && this.#end === null;
  }

  /** Resolves in the turn: at once where this one has it, as it would wait for itself. */
  take(): Promise<void> {
    if (this.#end !== null) return Promise.resolve();
    return new Promise((taken, refused) => {
      const held = () =>
        new Promise<void>((end) => {
          this.#end = end;
          taken();
          // It may have been paused while others had the turn.
          if (this.#paused) this.pause();
        });
      this.#withTurn(held).catch(refused);
    });
  }

  /** Nothing is measured from now on, for however long. */
  pause(): void {
    this.resume();
    this.#paused = true;
    this.#pausing = setTimeout(() => this.#giveBack(), this.#longMs);
  }

  resume(): void {
    this.#paused = false;
    clearTimeout(this.#pausing);
  }

  #giveBack(): void {
    this.#end?.();
    this.#end = null;
  }
}
