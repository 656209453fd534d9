import { now } from "../timing/clock.js";

/** Has whatever else a worker does wait for the runs of its model. */
export class RunsFirst {
  readonly #breathe: () => Promise<void>;
  #running = 0;
  #idle: Promise<void> = Promise.resolve();
  #settle: () => void = () => undefined;
  /** The time at which the last slice of anything else ended, in milliseconds of the clock. */
  restedMs = Number.NEGATIVE_INFINITY;

  /** `breathe` lets messages in. */
  constructor(breathe: () => Promise<void>) {
    this.#breathe = breathe;
  }

  /** Everything else waits for `work`, which may be under way several times at once. */
  async first<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running++ === 0) {
      this.#idle = new Promise((resolve) => {
        this.#settle = resolve;
      });
    }
    try {
      return await work();
    } finally {
      if (--this.#running === 0) this.#settle();
    }
  }

  /** Waits for runs that are under way, and disposes of what only they may still submit. */
  async release(all: ReadonlyMap<unknown, { dispose(): void }> = new Map()): Promise<void> {
    await this.rest();
    for (const held of all.values()) held.dispose();
  }

  /** Resolves once no run is under way or asked for. */
  readonly rest = async (): Promise<void> => {
    this.restedMs = now();
    await this.#breathe();
    while (this.#running > 0) await this.#idle;
  };
}
