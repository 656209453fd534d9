/**
 * The agent: it leases, measures in turns, reports and votes, for each target, until it is stopped.
 */
import { KernelZooError, sentence } from "../engine/error.js";
import type { FinalAnswer } from "../gateway/request.js";
import { measureFrom } from "../measurer/source.js";
import type { Lease } from "../wire/types.js";
import type { Results } from "./ranking.js";
import { type AgentPorts, workLease } from "./work.js";

/** One target that this agent measures, and what it has measured of it. */
export interface Measuring {
  readonly ports: AgentPorts;
  readonly results: Results;
}

/**
 * Sets a target up when its turn comes for the first time; null where this browser cannot run it.
 */
export type SetUp = () => Promise<AgentPorts | null>;

/**
 * Seconds that a request may wait for a candidate: with one target, with several, and when all are
 * idle.
 */
const WAIT_S = { alone: 20, several: 2, idle: 10 } as const;

/** Goes round the targets: each is measured until it has no candidate left, then the next. */
export class TargetRotation {
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

const CANDIDATES = 8;

function requestLease(
  { session, gateway, workloads, retried }: AgentPorts,
  wait_s: number,
): Promise<FinalAnswer<Lease>> {
  const only = workloads === null ? {} : { workloads: [...workloads] };
  const request = { limit: CANDIDATES, wait_s, ...only };
  return session.call((token) => retried(() => gateway.lease(token, request)));
}

/** False when there was nothing to measure. */
async function step({ ports, results }: Measuring, waitS: number): Promise<boolean> {
  await ports.gate.pass();
  const answer = await requestLease(ports, waitS);
  switch (answer.kind) {
    case "ok":
      await workLease(ports, answer.value, results);
      return true;
    case "empty":
      ports.emit({ type: "idle" });
      return false;
    case "refused":
      throw new Error(answer.detail);
    default:
      return answer satisfies never;
  }
}

/**
 * Measures targets in turn until `signal` is aborted. An error costs one lease and a wait, never
 * the agent. Resolves at once where this browser has none of the targets.
 */
export async function runAgent(targets: readonly SetUp[], signal: AbortSignal): Promise<void> {
  const rotation = new TargetRotation(targets);
  await measureFrom<Measuring>({
    next: async () => (signal.aborted ? null : ((await rotation.current()) ?? null)),
    async measure(current) {
      if (await step(current, rotation.waitS)) rotation.worked();
      else rotation.next();
    },
    async failed({ ports: { target, emit, sleep } }, thrown, retryInMs) {
      if (signal.aborted) return false;
      const message = sentence(thrown);
      if (thrown instanceof KernelZooError && thrown.stage === "profile") {
        emit({ type: "stuck", target, reason: message });
      }
      emit({ type: "error", message, retryInMs });
      rotation.next();
      await sleep(retryInMs).catch(() => undefined);
      return true;
    },
  });
}
