/** The messages between the agent's page and its worker. */
import type { Engine } from "../device/hardware.js";
import type { TurnRequest } from "../measurer/turns.js";
import type { KernelWire, MeasuredTarget, Outcome } from "../wire/types.js";
import type { Allowed } from "./budget.js";
import type { Pause } from "./pauses.js";
import type { SentRequest } from "./request-log.js";

/** One of the fastest kernels of a workload, with its time over that of the zoo's reference. */
export interface Finalist {
  readonly kernel: KernelWire;
  readonly relativeTime: number;
}

export interface StartOptions {
  readonly origin: string;
  /** The targets to measure, in this order. */
  readonly targets: readonly MeasuredTarget[];
  /**
   * The only workloads that are measured, first those in which most time may be won; null for all.
   */
  readonly workloads: readonly string[] | null;
  /** The workloads of which the page times finalists within whole tokens of its language model. */
  readonly inTokens: readonly string[];
  /** True where it measures beside work that goes first, of which `give-way` tells. */
  readonly beside: boolean;
  /** The application whose workloads alone are measured; null for all workloads. */
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
  /** Sent again whenever the reason changes. */
  | { readonly type: "pause"; readonly why: Pause }
  | { readonly type: "resume" }
  /** Work that goes first has begun or ended. */
  | { readonly type: "give-way"; readonly busy: boolean }
  /** Answers rank, in the order of the finalists; null where the page cannot tell. */
  | { readonly type: "ranked"; readonly times: readonly number[] | null }
  /** Answers acquire-turn; `error` where the host failed. */
  | { readonly type: "turn"; readonly error: string | null };

export type FromWorker =
  | { readonly type: "event"; readonly event: AgentEvent }
  | { readonly type: "sent"; readonly request: SentRequest }
  /** Time spent computing. */
  | { readonly type: "spent"; readonly ms: number }
  | { readonly type: "note"; readonly key: string; readonly value: string }
  /** Asks what finalists take within whole tokens. */
  | {
      readonly type: "rank";
      readonly workload: string;
      readonly finalists: readonly Finalist[];
    }
  | TurnRequest;

/**
 * An event that an agent tells its page of. Rates are GFLOP/s, of one thread for wasm; a relative
 * time is the best sample of the candidate over the best of the reference, so less than 1 is
 * faster.
 */
export type AgentEvent =
  | {
      readonly type: "session";
      readonly target: MeasuredTarget;
      readonly deviceId: string;
      readonly deviceClass: string;
      readonly engine: Engine;
      /** Register-only limit of one core, or of the whole GPU. */
      readonly peakGflops: number;
      readonly isolated: boolean;
      /** Step of the page's clock. */
      readonly clockStepMs: number;
    }
  /** Shows what the first request is going to hold, as JSON; it waits until the visitor agrees. */
  | { readonly type: "profile"; readonly body: string }
  /** This browser cannot run the target; the agent measures the others. */
  | { readonly type: "unavailable"; readonly target: MeasuredTarget; readonly reason: string }
  | {
      readonly type: "lease";
      readonly target: MeasuredTarget;
      readonly workload: string;
      readonly candidates: number;
      readonly unmeasured: number;
    }
  | {
      readonly type: "measuring";
      readonly target: MeasuredTarget;
      readonly workload: string;
      readonly candidate: string;
    }
  | {
      readonly type: "measured";
      readonly target: MeasuredTarget;
      readonly workload: string;
      readonly candidate: string;
      readonly outcome: Outcome;
      /** Null unless the outcome is ok. */
      readonly gflops: number | null;
      readonly relativeTime: number | null;
      /** The rate of the reference kernel in the same rounds; null unless the outcome is ok. */
      readonly referenceGflops: number | null;
      /** The best rate among all candidates of this workload so far; null before the first. */
      readonly bestGflops: number | null;
      readonly detail: string;
    }
  | {
      readonly type: "ballot";
      readonly target: MeasuredTarget;
      readonly workload: string;
      readonly lines: readonly { readonly candidate: string; readonly relativeTime: number }[];
      /** Filed once the agent's share is measured and the best were measured again. */
      readonly final: boolean;
    }
  | { readonly type: "firstTimed"; readonly firstTimedMs: number }
  | { readonly type: "idle" }
  /** The GPU's driver does not answer any more; only a new browser can have it again. */
  | { readonly type: "stuck"; readonly target: MeasuredTarget; readonly reason: string }
  /** This browser can run nothing that it was asked for, and the agent has ended. */
  | { readonly type: "refused"; readonly reason: string }
  | { readonly type: "paused"; readonly why: Pause }
  | { readonly type: "resumed" }
  | {
      readonly type: "error";
      readonly message: string;
      /** Null when the agent goes on at once. */
      readonly retryInMs: number | null;
    };

export type Emit = (event: AgentEvent) => void;
