import { type Clock, now } from "../timing/clock.js";
import type { WithTurn } from "./turn.js";

/** What the page allows: how much longer, and the share of the time that may be spent. */
export interface Allowed {
  readonly leftMs: number;
  readonly share: number;
}

export interface AllowancePorts {
  sleep(ms: number): Promise<void>;
  /** Told after each turn, with what it took. */
  spent(ms: number): void;
  readonly clock?: Clock;
}

/**
 * Counts the time spent in turns, that is computing, and rests after each so that the share is
 * kept. Who takes turns asks `isLeft` before: a turn that has begun is finished.
 */
export class Allowance {
  #allowed: Allowed;
  readonly #ports: AllowancePorts;

  constructor(allowed: Allowed, ports: AllowancePorts) {
    this.#allowed = allowed;
    this.#ports = ports;
  }

  get isLeft(): boolean {
    return this.#allowed.leftMs > 0;
  }

  allow(allowed: Allowed): void {
    this.#allowed = allowed;
  }

  counted(withTurn: WithTurn): WithTurn {
    const clock = this.#ports.clock ?? now;
    return async (work) => {
      let tookMs = 0;
      try {
        return await withTurn(async () => {
          const began = clock();
          try {
            return await work();
          } finally {
            tookMs = clock() - began;
          }
        });
      } finally {
        this.#spend(tookMs);
        await this.#rest(tookMs);
      }
    };
  }

  #spend(ms: number): void {
    const { leftMs, share } = this.#allowed;
    this.#allowed = { leftMs: Math.max(leftMs - ms, 0), share };
    this.#ports.spent(ms);
  }

  async #rest(ms: number): Promise<void> {
    const { share } = this.#allowed;
    if (share < 1) await this.#ports.sleep(ms * (1 / share - 1));
  }
}
