import type { Answer } from "../gateway/answer.js";
import type { Gateway } from "../gateway/gateway.js";
import type { FinalAnswer } from "../gateway/retry.js";
import type { TargetKind } from "../wire/types.js";
import type { Emit } from "./events.js";
import type { Gate } from "./gate.js";
import type { Instrument } from "./instrument.js";
import type { Session } from "./session.js";
import type { WithTurn } from "./turn.js";

/** What the agent needs of the world around it to measure one target. */
export interface AgentPorts {
  readonly target: TargetKind;
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
