/**
 * Runs that are under way at once: while one is read back, the next ones are submitted and compute. Each
 * has staging of its own, and one that finds none free waits for what is given back.
 */
export class OverlappingRuns<Staging> {
  readonly #free: Staging[];
  readonly #waiting: ((staging: Staging) => void)[] = [];
  #submitted: Promise<unknown> = Promise.resolve();

  /** Lets as many runs be under way at once as there is staging. */
  constructor(all: readonly Staging[]) {
    this.#free = [...all];
  }

  /**
   * Submits a run behind the one before, and reads what it computed; null where `submit` says that it
   * was aborted. Throws what either throws.
   */
  async run<Result>(
    submit: (staging: Staging) => Promise<boolean>,
    read: (staging: Staging) => Promise<Result>,
  ): Promise<Result | null> {
    const staging = await this.#take();
    try {
      const submitted = this.#submitted.then(() => submit(staging));
      this.#submitted = submitted.catch(() => undefined);
      return (await submitted) ? await read(staging) : null;
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free.push(staging);
      else next(staging);
    }
  }

  #take(): Promise<Staging> {
    const staging = this.#free.pop();
    if (staging !== undefined) return Promise.resolve(staging);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
