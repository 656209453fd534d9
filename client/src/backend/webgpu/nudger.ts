import { type Clock, now } from "../../timing/clock.js";

/** Milliseconds between two nudges. */
const EVERY_MS = 0.1;
/**
 * Milliseconds between two nudges where other outputs are awaited, too: the GPU has work, and
 * nudges take of the time in which more of it is handed over.
 */
const SELDOM_MS = 0.5;
/**
 * Nudges end after so long: longer work gains nothing from being told of 2 ms earlier, and a core
 * would wait for nothing.
 */
const MOST_MS = 20;

/** A function that is called with each nudge from the time `at` of the clock on. */
export interface Soon {
  readonly at: number;
  readonly tell: () => void;
}

/**
 * Chromium's GPU process looks for work that has ended when it is handed something, and every 2 ms
 * otherwise: outputs of 0.45 ms of work are there after 2.5 ms (H100). So something is handed to it
 * while outputs are awaited, which leaves 0.6 ms. It keeps the thread busy, but lets messages in:
 * it is for workers.
 */
export class Nudger {
  readonly #queue: Pick<GPUQueue, "submit">;
  readonly #turn: () => Promise<void>;
  readonly #clock: Clock;
  #awaited = 0;
  #nudges = false;
  #until = 0;
  #soon: Soon | null = null;

  /** `turn` lets messages in. */
  constructor(queue: Pick<GPUQueue, "submit">, turn: () => Promise<void>, clock: Clock = now) {
    this.#queue = queue;
    this.#turn = turn;
    this.#clock = clock;
  }

  /** Settles as `outputs` do, which end with work that was just submitted. */
  async during<T>(outputs: Promise<T>, soon: Soon | null = null): Promise<T> {
    this.#soon = soon;
    this.#until = this.#clock() + MOST_MS;
    this.#awaited += 1;
    if (!this.#nudges) void this.#nudge();
    try {
      return await outputs;
    } finally {
      this.#awaited -= 1;
    }
  }

  async #nudge(): Promise<void> {
    this.#nudges = true;
    let last = this.#clock();
    while (this.#awaited > 0 && this.#clock() < this.#until) {
      await this.#turn();
      if (this.#clock() - last < (this.#awaited > 1 ? SELDOM_MS : EVERY_MS)) continue;
      this.#queue.submit([]);
      last = this.#clock();
      // Whoever has several runs under way is awake.
      if (this.#awaited === 1 && this.#soon !== null && last >= this.#soon.at) this.#soon.tell();
    }
    this.#nudges = false;
  }
}
