import type { AgentPorts } from "./ports.js";
import type { Results } from "./results.js";

/** One target that this agent measures, and what it has measured of it. */
export interface Measuring {
  readonly ports: AgentPorts;
  readonly results: Results;
}

/** Sets a target up when its turn comes for the first time; null where this browser has it not. */
export type SetUp = () => Promise<AgentPorts | null>;

/** Seconds that a request may wait for a candidate: of one target, of several, of idle ones. */
const WAIT_S = { alone: 20, several: 2, idle: 10 } as const;

/** Whose turn it is: each target until it has nothing to measure, then the next. */
export class Rota {
  readonly #toSetUp: SetUp[];
  readonly #targets: Measuring[] = [];
  #turn = 0;
  #idle = 0;

  constructor(targets: readonly SetUp[]) {
    this.#toSetUp = [...targets];
  }

  /** Undefined where this browser has none of the targets. Rejects as setting up does. */
  async current(): Promise<Measuring | undefined> {
    while (this.#turn >= this.#targets.length && this.#toSetUp.length > 0) {
      const ports = await (this.#toSetUp[0] as SetUp)();
      this.#toSetUp.shift();
      if (ports !== null) this.#targets.push({ ports, results: new Map() });
    }
    return this.#targets[this.#turn % this.#targets.length];
  }

  get waitS(): number {
    const known = this.#targets.length + this.#toSetUp.length;
    if (known === 1) return WAIT_S.alone;
    return this.#idle < known ? WAIT_S.several : WAIT_S.idle;
  }

  worked(): void {
    this.#idle = 0;
  }

  /** The current target has nothing to measure, or failed. */
  next(): void {
    this.#idle += 1;
    this.#turn += 1;
  }
}
