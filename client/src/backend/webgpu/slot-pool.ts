/** Staging that runs take in turn: a run that finds none free waits for one that is given back. */
export class StagingPool<Staging> {
  readonly #free: Staging[];
  readonly #waiting: ((staging: Staging) => void)[] = [];

  constructor(all: readonly Staging[]) {
    this.#free = [...all];
  }

  take(): Promise<Staging> {
    const staging = this.#free.pop();
    if (staging !== undefined) return Promise.resolve(staging);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  give(staging: Staging): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(staging);
    else next(staging);
  }
}
