/** Keeps the keys and values of several texts beside those that a decoder has in memory. */

/** A state of keys or values, with places along its last axis but one and `width` entries of each. */
export interface CacheState {
  readonly entries: Float32Array;
  readonly width: number;
}

export class BeamCaches {
  readonly #states: readonly CacheState[];
  /** Places that a state has room for. */
  readonly #length: number;
  readonly #slots: readonly (readonly Float32Array[])[];

  constructor(states: readonly CacheState[], length: number, count: number) {
    this.#states = states;
    this.#length = length;
    this.#slots = Array.from({ length: count }, () =>
      states.map(({ entries }) => new Float32Array(entries.length)),
    );
  }

  /** Keeps places `from` to `to` of the decoder in a slot. */
  save(slot: number, from: number, to: number): void {
    for (const [i, { entries, width }] of this.#states.entries()) {
      this.#copied(this.#slots[slot]?.[i] as Float32Array, entries, width, from, to);
    }
  }

  /** Gives the decoder the first places of a slot. */
  load(slot: number, places: number): void {
    for (const [i, { entries, width }] of this.#states.entries()) {
      this.#copied(entries, this.#slots[slot]?.[i] as Float32Array, width, 0, places);
    }
  }

  copy(from: number, to: number, places: number): void {
    for (const [i, { width }] of this.#states.entries()) {
      const [source, target] = [this.#slots[from]?.[i], this.#slots[to]?.[i]];
      this.#copied(target as Float32Array, source as Float32Array, width, 0, places);
    }
  }

  #copied(
    target: Float32Array,
    source: Float32Array,
    width: number,
    from: number,
    to: number,
  ): void {
    for (let at = 0; at < source.length; at += this.#length * width) {
      const first = at + from * width;
      target.set(source.subarray(first, at + to * width), first);
    }
  }
}
