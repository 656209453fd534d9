/** What the agent's page and its worker say to each other. */
import type { TargetKind } from "../wire/types.js";
import type { Allowed } from "./allowance.js";
import type { AgentEvent } from "./events.js";
import type { Pause } from "./pauses.js";
import type { SentRequest } from "./sent.js";

export interface StartOptions {
  readonly origin: string;
  /** What to measure, in this order. */
  readonly targets: readonly TargetKind[];
  /** Whose workloads alone it measures; null for those of all. */
  readonly application: string | null;
  /** `performance.timeOrigin` of the page: when it began to open. */
  readonly openedAt: number;
  readonly operatorKey: string | null;
  /** The page can ask its host for turns. */
  readonly hostTurns: boolean;
  /** The visitor has agreed already; else the first request waits for `approve`. */
  readonly approved: boolean;
  readonly allowed: Allowed;
  /** Notes of earlier visits, which a worker cannot read itself. */
  readonly notes: Readonly<Record<string, string>>;
}

export type ToWorker =
  | { readonly type: "start"; readonly options: StartOptions }
  /** The visitor has seen the profile and lets it be sent. */
  | { readonly type: "approve" }
  | { readonly type: "allow"; readonly allowed: Allowed }
  /** Anew whenever the reason changes. */
  | { readonly type: "pause"; readonly why: Pause }
  | { readonly type: "resume" }
  /** Answers acquire-turn; `error` where the host failed. */
  | { readonly type: "turn"; readonly error: string | null };

export type FromWorker =
  | { readonly type: "event"; readonly event: AgentEvent }
  | { readonly type: "sent"; readonly request: SentRequest }
  /** Time spent computing. */
  | { readonly type: "spent"; readonly ms: number }
  | { readonly type: "note"; readonly key: string; readonly value: string }
  | { readonly type: "acquire-turn" }
  | { readonly type: "release-turn" };
