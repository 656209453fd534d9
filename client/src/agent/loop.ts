/** The agent: lease, measure in turns, report, vote; until it is stopped. */
import { sentence } from "../engine/error.js";
import { backoffMs } from "../gateway/backoff.js";
import type { FinalAnswer } from "../gateway/retry.js";
import type { Lease } from "../wire/types.js";
import type { AgentPorts } from "./ports.js";
import type { Results } from "./results.js";
import { workLease } from "./work.js";

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
