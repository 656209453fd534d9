/** Messages between a page and the worker of a model. */
import type { CallTimes } from "../backend/wasm/dispatch.js";
import type { Placement } from "../backend/wasm/memory.js";
import type { PlanCopy } from "../backend/wasm/plan-copy.js";
import type { Stage } from "../engine/error.js";
import type { FilesKind } from "../weights/cache-files.js";
import type { KeptName } from "../weights/cache-reader.js";
import type { GraphOrder, KeptWeight, Ways } from "../weights/cached-model.js";
import type { WeightsFile } from "../weights/loader.js";
import type { ModelAnswer } from "../wire/model-answer.js";
import type { Stored } from "./golden-tensors.js";

/**
 * Numbers of a load, phase by phase. Of `weights` and `kernels` they are bytes, of `check` calls, of
 * `compile` kernels, for which a page waits where the zoo has yet to compile them.
 */
export interface Progress {
  readonly phase: "compile" | "plan" | "kernels" | "weights" | "check";
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
  /** True to compare the golden outputs once no run is wanted, `first` to do so before any run. */
  readonly check: Check;
  /** The graph in which this device keeps the weights; null where it does not. */
  readonly graph: GraphOrder | null;
  /** Workloads whose default kernel runs in place of the one that the zoo chose. */
  readonly replaced: readonly string[];
}

export type Question =
  /** Asks for a part of the model's memory, in that of `into`, which comes back with it. */
  | { readonly type: "read"; readonly address: number; readonly into: Uint8Array<ArrayBuffer> }
  /** Asks for a copy of the plan with all weights, once they are in memory. */
  | { readonly type: "copy" }
  /** Asks how the model's weights are best kept in such files. */
  | { readonly type: "ways"; readonly files: FilesKind }
  /** Asks to write them there under a name, those of `plain` as their author stored them. */
  | {
      readonly type: "write";
      readonly files: FilesKind;
      readonly name: string;
      readonly plain: readonly boolean[];
    };

/** Questions to a worker that knows of storage. */
export type Keeping = Extract<Question, { readonly type: "ways" | "write" }>;

/** Its answer, which is empty of other workers. `failure` says why weights were not written. */
export interface KeepingAnswer {
  readonly ways?: Ways;
  readonly weights?: readonly KeptWeight[];
  readonly failure?: string;
}

/** Tells a worker that is to prepare weights beside a model's where it gets them from. */
export interface ToBeside {
  readonly type: "beside";
  readonly port: MessagePort;
  readonly from: WeightsFrom;
}

/** The source of weights: all of them are fetched, or some are kept. */
export type WeightsFrom =
  | { readonly type: "file"; readonly file: WeightsFile }
  | { readonly type: "kept"; readonly kept: KeptName };

export type ToRuntime =
  /** `beside` is the other end of the port of a worker that is to prepare weights. */
  | { readonly type: "load"; readonly order: LoadOrder; readonly beside?: MessagePort | undefined }
  /**
   * `feeds` in the order of the plan's inputs. With `timed` each call is timed, at any cost; an abort
   * may follow where the run is `stoppable`. Outputs may take the memory of `into`.
   */
  | {
      readonly type: "run";
      readonly id: number;
      readonly feeds: readonly Stored[];
      readonly into: readonly Stored[];
      readonly timed: boolean;
      readonly stoppable: boolean;
    }
  | { readonly type: "abort"; readonly id: number }
  /** A run is about to be asked for, once its feeds are copied: see the other one below. */
  | { readonly type: "soon" }
  | (Question & { readonly id: number });

/** A kernel that does not do what it should. */
export interface Fault {
  readonly workload: string;
  readonly artifact: string;
  readonly stage: Stage;
  readonly message: string;
}

/**
 * An error that was thrown, as it travels. `fault` names the kernel to blame, where that is known.
 * The message is `OVERFLOW` of model/f16-overflow.ts for a run of a plan of f16 that made values
 * which are no numbers, and which the plan of f32 may make; it is worded when it is mended.
 */
export interface Failure {
  readonly stage: Stage;
  readonly message: string;
  readonly fault: Fault | null;
  /** The golden output that is wrong, where it is that; `message` is worded when it is mended. */
  readonly output?: string;
  /** The page has mended it already, where only the page had chosen what is at fault. */
  readonly mended?: true;
}

export interface Loaded {
  readonly memoryBytes: number;
  /** The addresses of weights in memory; undefined on a GPU. */
  readonly placement?: Pick<Placement, "weights" | "plain" | "totalBytes">;
  readonly threads: number;
  /** The reason why there is one thread although more were asked for; null otherwise. */
  readonly singleThreadReason: string | null;
}

export type FromRuntime =
  | { readonly type: "progress"; readonly progress: Progress }
  /** Runs may come; weights are still on their way. */
  | { readonly type: "loaded"; readonly loaded: Loaded }
  /** All weights are in memory, and the golden outputs are right. */
  | { readonly type: "complete" }
  | { readonly type: "refused"; readonly failure: Failure }
  /** A GPU is about to end a run: a thread that has slept for milliseconds takes 0.2 more to wake. */
  | { readonly type: "soon" }
  /** A run has ended. The next one may use the memory of its feeds, where that is not shared. */
  | {
      readonly type: "done";
      readonly id: number;
      readonly feeds: readonly Stored[];
      readonly outputs: readonly Stored[];
      readonly times: CallTimes;
    }
  | { readonly type: "read"; readonly id: number; readonly piece: Uint8Array<ArrayBuffer> }
  /** There is no copy of a plan that the page cannot run. */
  | { readonly type: "copy"; readonly id: number; readonly copy: PlanCopy | undefined }
  | ({ readonly type: "ways"; readonly id: number } & KeepingAnswer)
  | ({ readonly type: "write"; readonly id: number } & KeepingAnswer)
  | { readonly type: "aborted"; readonly id: number }
  | { readonly type: "failed"; readonly id: number; readonly failure: Failure };
