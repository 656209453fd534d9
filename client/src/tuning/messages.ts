/** The messages between a page, the worker that measures and the worker of a tuned model. */
import type { Finalist } from "../agent/messages.js";
import type { SentRequest } from "../agent/request-log.js";
import type { CallTimes } from "../backend/wasm/dispatch.js";
import type { Linked } from "../backend/wasm/program.js";
import type { KernelWire } from "../wire/types.js";

/** A kernel that was found to be faster in an earlier visit. */
export interface KeptKernel {
  readonly workload: string;
  readonly kernel: KernelWire;
}

/** A workload that runs a kernel of an earlier visit, and the zoo's kernel to compare it with. */
export interface Comparison {
  readonly workload: string;
  /** The artifact that runs. */
  readonly running: string;
  readonly kernel: KernelWire;
}

/** A workload of the model, and the kernel that runs. */
export interface Running {
  readonly workload: string;
  readonly kernel: KernelWire;
  readonly tolerance: number;
}

export interface MeasureOrder {
  /** Addresses of kernels are relative to it. */
  readonly origin: string;
  /** The address of the stream of candidates. */
  readonly candidates: string;
  readonly running: readonly Running[];
  /** To be measured first. */
  readonly kept: readonly KeptKernel[];
  /** Artifacts that are not to be tried again. */
  readonly tried: readonly string[];
  readonly budgetMs: number;
  /** True where this page is an agent, too. */
  readonly contributes: boolean;
}

export type ToMeasurer =
  | { readonly type: "measure"; readonly order: MeasureOrder }
  /** Milliseconds of an inference by workload. */
  | { readonly type: "times"; readonly ms: Readonly<Record<string, number>> }
  /** Another kernel runs than `lost`, which was refused or taken back. */
  | { readonly type: "running"; readonly running: Running; readonly lost: string }
  /** Says whether candidates are tried of which nobody knows anything. */
  | { readonly type: "explore"; readonly explore: boolean }
  /** This page has measured a candidate for others. */
  | {
      readonly type: "expected";
      readonly workload: string;
      readonly candidate: string;
      readonly expected: number;
    }
  | { readonly type: "go" }
  | { readonly type: "rest" }
  | { readonly type: "ping" };

export interface Winner {
  readonly workload: string;
  readonly kernel: KernelWire;
  /** The time over that of the kernel that ran. */
  readonly relativeTime: number;
  /**
   * The modules that were compiled to measure it; where they are left out, the model's worker
   * fetches it.
   */
  readonly modules?: readonly Linked[];
}

export type FromMeasurer =
  | { readonly type: "pong" }
  | { readonly type: "trying"; readonly artifact: string }
  | {
      readonly type: "measured";
      readonly artifact: string;
      readonly relativeTime: number | null;
    }
  /** `runnersUp`: the artifact that ran, and those that were faster than it, too. */
  | { readonly type: "found"; readonly winner: Winner; readonly runnersUp: readonly string[] }
  | { readonly type: "spent"; readonly ms: number }
  | { readonly type: "sent"; readonly request: SentRequest }
  /** The zoo is away, or what it sends does not arrive. */
  | { readonly type: "waiting"; readonly message: string }
  /** `complete`: it has measured all candidates that there are. */
  | { readonly type: "ended"; readonly reason: string; readonly complete: boolean };

/**
 * Two times in milliseconds since 1970: when a run began, and when the last slice of a swap before
 * it ended.
 */
export interface Began {
  readonly startMs: number;
  readonly sliceEndMs: number;
}

export type ToTuned =
  | { readonly type: "swap"; readonly swaps: readonly Winner[] }
  /** Has kernels of an earlier visit audited as if they had been swapped in. */
  | { readonly type: "compare"; readonly comparisons: readonly Comparison[] }
  /** Has the kernel run again that inferences are compared with, if there is one. */
  | { readonly type: "take-back"; readonly workload: string; readonly reason: string }
  | {
      readonly type: "rank";
      readonly workload: string;
      readonly finalists: readonly Finalist[];
    };

export type FromTuned =
  /** Answers rank, with a relative time for each finalist; null where none can be told. */
  | { readonly type: "ranked"; readonly times: readonly number[] | null }
  /** `refused`: why a kernel does not run, in the order of the swaps; null where it does. */
  | { readonly type: "swapped"; readonly refused: readonly (string | null)[] }
  /** Nothing was swapped, as the zoo is away: the page asks again. */
  | { readonly type: "postponed"; readonly reason: string }
  /** `again`: the artifact that runs from now on. */
  | {
      readonly type: "regression";
      readonly workload: string;
      readonly reason: string;
      readonly again: string;
    }
  /** Tells the times of calls, where runs do not tell them. */
  | { readonly type: "timed"; readonly times: CallTimes };
