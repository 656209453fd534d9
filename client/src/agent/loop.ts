/** The agent: lease, measure in turns, report, vote; until it is stopped. */
import { sentence } from "../engine/error.js";
import type { Answer } from "../gateway/answer.js";
import { backoffMs } from "../gateway/backoff.js";
import type { Gateway } from "../gateway/gateway.js";
import type { FinalAnswer } from "../gateway/retry.js";
import type { Lease } from "../wire/types.js";
import type { Emit } from "./events.js";
import type { Gate } from "./gate.js";
import type { Instrument } from "./instrument.js";
import type { Ranked } from "./ranking.js";
import type { Session } from "./session.js";
import type { WithTurn } from "./turn.js";
import { workLease } from "./work.js";

/** What the agent needs of the world around it. */
export interface AgentPorts {
  readonly gateway: Gateway;
  readonly session: Session;
  readonly instrument: Instrument;
  readonly withTurn: WithTurn;
  readonly gate: Gate;
  readonly emit: Emit;
  /** Asks again while the gateway is unavailable. */
  retried<T>(request: () => Promise<Answer<T>>): Promise<FinalAnswer<T>>;
  /** Waits; rejects when the agent is stopped. */
  sleep(ms: number): Promise<void>;
  /** Milliseconds since the page was opened. */
  sinceOpenMs(): number;
}

/** What this agent measured of one workload, by candidate. Grows with each lease. */
export interface WorkloadResults {
  readonly ranked: Map<string, Ranked>;
  bestGflops: number | null;
}

/** By workload; forgotten with the page. */
export type Results = Map<string, WorkloadResults>;

const LEASE_REQUEST = { limit: 8, wait_s: 20 };

function requestLease({ session, gateway, retried }: AgentPorts): Promise<FinalAnswer<Lease>> {
  return session.call((token) => retried(() => gateway.lease(token, LEASE_REQUEST)));
}

async function step(ports: AgentPorts, results: Results): Promise<void> {
  await ports.gate.pass();
  const answer = await requestLease(ports);
  switch (answer.kind) {
    case "ok":
      return workLease(ports, answer.value, results);
    case "empty":
      return ports.emit({ type: "idle" });
    case "refused":
      throw new Error(answer.detail);
    default:
      answer satisfies never;
  }
}

/** Runs until `signal` is aborted. An error costs one lease and a wait, never the agent. */
export async function runAgent(ports: AgentPorts, signal: AbortSignal): Promise<void> {
  const results: Results = new Map();
  for (let failures = 0; !signal.aborted; ) {
    try {
      await step(ports, results);
      failures = 0;
    } catch (thrown) {
      if (signal.aborted) return;
      const retryInMs = backoffMs(failures++);
      ports.emit({ type: "error", message: sentence(thrown), retryInMs });
      await ports.sleep(retryInMs).catch(() => undefined);
    }
  }
}
