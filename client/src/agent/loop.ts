/** The agent: lease, measure in turns, report, vote; until it is stopped. */
import { KernelZooError, sentence } from "../engine/error.js";
import { backoffMs } from "../gateway/backoff.js";
import type { FinalAnswer } from "../gateway/retry.js";
import type { Lease } from "../wire/types.js";
import type { AgentPorts } from "./ports.js";
import { type Measuring, Rota, type SetUp } from "./rota.js";
import { workLease } from "./work.js";

const CANDIDATES = 8;

function requestLease(
  { session, gateway, retried }: AgentPorts,
  wait_s: number,
): Promise<FinalAnswer<Lease>> {
  const request = { limit: CANDIDATES, wait_s };
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
  const rota = new Rota(targets);
  for (let failures = 0; !signal.aborted; ) {
    const current = await rota.current();
    if (current === undefined) return;
    try {
      if (await step(current, rota.waitS)) rota.worked();
      else rota.next();
      failures = 0;
    } catch (thrown) {
      if (signal.aborted) return;
      const message = sentence(thrown);
      if (thrown instanceof KernelZooError && thrown.stage === "profile") {
        const { target } = current.ports;
        current.ports.emit({ type: "stuck", target, reason: message });
      }
      const retryInMs = backoffMs(failures++);
      current.ports.emit({ type: "error", message, retryInMs });
      rota.next();
      await current.ports.sleep(retryInMs).catch(() => undefined);
    }
  }
}
