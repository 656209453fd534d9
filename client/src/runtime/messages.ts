/** What a page and the worker of a model tell each other. */
import type { Stage } from "../engine/error.js";
import type { ModelAnswer } from "./answer.js";
import type { CallTimes } from "./dispatch.js";
import type { Stored } from "./golden.js";

/** Numbers of a load, phase by phase. Of `weights` and `kernels` they are bytes, of `check` calls. */
export interface Progress {
  readonly phase: "plan" | "kernels" | "weights" | "check";
  readonly loaded: number;
  readonly total: number;
}

export type Check = boolean | "first";

export interface LoadOrder {
  readonly answer: ModelAnswer;
  /** Addresses of the answer are relative to it. */
  readonly origin: string;
  /** Threads that run calls, the worker's own among them. */
  readonly threads: number;
  /** Whether the golden outputs are to be compared: once no run is wanted, or before the first. */
  readonly check: Check;
  /** Whether prepared weights are kept on the device. */
  readonly keep: boolean;
  /** Workloads whose default kernel runs in place of the one that the zoo chose. */
  readonly replaced: readonly string[];
}

export type ToRuntime =
  | { readonly type: "load"; readonly order: LoadOrder }
  /**
   * `feeds` in the order of the plan's inputs. With `timed` each call is timed, at any cost; an abort
   * may follow where the run is `stoppable`.
   */
  | {
      readonly type: "run";
      readonly id: number;
      readonly feeds: readonly Stored[];
      readonly timed: boolean;
      readonly stoppable: boolean;
    }
  | { readonly type: "abort"; readonly id: number };

/** A kernel that does not do what it should. */
export interface Fault {
  readonly workload: string;
  readonly artifact: string;
  readonly stage: Stage;
  readonly message: string;
}

/** What was thrown, as it travels. `fault` names the kernel to blame, where that is known. */
export interface Failure {
  readonly stage: Stage;
  readonly message: string;
  readonly fault: Fault | null;
}

export interface Loaded {
  readonly memoryBytes: number;
  readonly threads: number;
  /** Why there is one thread although more were asked for; null otherwise. */
  readonly singleThreadReason: string | null;
}

export type FromRuntime =
  | { readonly type: "progress"; readonly progress: Progress }
  /** Runs may come; weights are still on their way. */
  | { readonly type: "loaded"; readonly loaded: Loaded }
  /** All weights are in memory, and the golden outputs are right. */
  | { readonly type: "complete" }
  | { readonly type: "refused"; readonly failure: Failure }
  /** With its feeds, whose memory the next run may use. */
  | {
      readonly type: "done";
      readonly id: number;
      readonly feeds: readonly Stored[];
      readonly outputs: readonly Stored[];
      readonly times: CallTimes;
    }
  | { readonly type: "aborted"; readonly id: number }
  | { readonly type: "failed"; readonly id: number; readonly failure: Failure };
