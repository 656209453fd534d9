/** Staging buffers that runs take in turn: a run that finds none free waits for one that is given back. */
export class StagingPool {
  readonly #free: GPUBuffer[];
  readonly #waiting: ((staging: GPUBuffer) => void)[] = [];

  constructor(buffers: readonly GPUBuffer[]) {
    this.#free = [...buffers];
  }

  take(): Promise<GPUBuffer> {
    const staging = this.#free.pop();
    if (staging !== undefined) return Promise.resolve(staging);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  give(staging: GPUBuffer): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(staging);
    else next(staging);
  }
}
