/** What the agent's page and its worker say to each other. */
import type { TargetKind } from "../wire/types.js";
import type { AgentEvent } from "./events.js";

export interface StartOptions {
  readonly origin: string;
  /** What to measure, in this order. */
  readonly targets: readonly TargetKind[];
  /** `performance.timeOrigin` of the page: when it began to open. */
  readonly openedAt: number;
  readonly operatorKey: string | null;
  /** The page can ask its host for turns. */
  readonly hostTurns: boolean;
  /** Notes of earlier visits, which a worker cannot read itself. */
  readonly notes: Readonly<Record<string, string>>;
}

export type ToWorker =
  | { readonly type: "start"; readonly options: StartOptions }
  | { readonly type: "pause" }
  | { readonly type: "resume" }
  /** Answers acquire-turn; `error` where the host failed. */
  | { readonly type: "turn"; readonly error: string | null };

export type FromWorker =
  | { readonly type: "event"; readonly event: AgentEvent }
  | { readonly type: "note"; readonly key: string; readonly value: string }
  | { readonly type: "acquire-turn" }
  | { readonly type: "release-turn" };
