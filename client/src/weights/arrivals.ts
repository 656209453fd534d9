/** Notes which weights are in memory, in words of it for each, so that all threads see them. */

/** Whoever waits for weights hears of an abort this late. */
const PATIENCE_MS = 4;

/** Words of a weight: its state, and the microseconds that packing it took. */
export const ARRIVAL_WORDS = 2;

/** The states: to be fetched, to be read by any thread, being read by one, in memory. */
export const FETCHED = 0;
export const READABLE = 1;
export const TAKEN = 2;
export const STORED = 3;

/** Counts how many of the first `weights` weights are in memory, up to one that is not. */
export function countOf(arrivals: Arrivals, weights: number): number {
  let count = 0;
  while (count < weights && arrivals.state(count) === STORED) count++;
  return count;
}

export class Arrivals {
  readonly words: Int32Array;
  readonly #all: number;
  /** True while a run computes, or waits for weights to compute with. */
  computing = false;
  /** Hears when a run begins to wait, or has computed. */
  onrest: (() => void) | null = null;
  /** Is told once of each weight that is in memory, in their order, by whoever needs it now. */
  onneed: (weight: number) => void = () => undefined;
  #count = 0;
  #hear: (() => void) | null = null;

  constructor({ buffer }: Pick<WebAssembly.Memory, "buffer">, address: number, weights: number) {
    this.words = new Int32Array(buffer, address, ARRIVAL_WORDS * weights);
    this.#all = weights;
  }

  /** Returns whether the first `count` weights, which a run needs now, are in memory. */
  has(count: number): boolean {
    for (; this.#count < count; this.#count++) {
      if (this.state(this.#count) !== STORED) return false;
      this.onneed(this.#count);
    }
    return true;
  }

  /**
   * Tells `onneed` of weights that no run has needed yet, while none computes: all are in memory.
   */
  async settled(): Promise<void> {
    while (this.computing) await new Promise<void>((resolve) => (this.onrest = resolve));
    this.has(this.#all);
  }

  /** True while a run waits for weights. */
  get waiting(): boolean {
    return this.#hear !== null;
  }

  state(weight: number): number {
    return Atomics.load(this.words, ARRIVAL_WORDS * weight);
  }

  /** Notes that a weight is in memory, and the milliseconds that packing it took. */
  put(weight: number, packMs = 0): void {
    const word = ARRIVAL_WORDS * weight;
    this.words[word + 1] = 1000 * packMs;
    Atomics.store(this.words, word, STORED);
    this.heard();
  }

  /** Has whoever waits look again. */
  heard(): void {
    this.#hear?.();
  }

  /** Resolves when the next weight is in memory, and after `PATIENCE_MS` without one. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#hear = () => {
        this.#hear = null;
        resolve();
      };
      setTimeout(this.#hear, PATIENCE_MS);
      this.onrest?.();
    });
  }
}
