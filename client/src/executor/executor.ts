/**
 * Runs a plan in a worker: one interface, whatever its calls run on. A folder of `backend/` has an
 * executor of any plan; a decoder of a language model is one whose runs go on from states.
 */
import type { CallTimes, Ports } from "../backend/wasm/dispatch.js";
import type { PlanCopy } from "../backend/wasm/plan-copy.js";
import type { Stored } from "./golden-tensors.js";
import type { Keeping, KeepingAnswer, Loaded, LoadOrder, Progress } from "./messages.js";

export interface RunResult {
  readonly outputs: readonly Stored[];
  /** The start of each call, its time and its number of threads; empty where runs do not tell. */
  readonly times: CallTimes;
}

/**
 * Returns the times of a run whose calls are not told apart: on a GPU they overlap, and those of a
 * token are parts of several runs. The array is new each time, as times travel.
 */
export const untimed = (): CallTimes => new Float64Array(0);

/** Functions by which every executor may tell and ask while it loads and runs. */
export interface ExecutorPorts extends Ports {
  readonly progress: (progress: Progress) => void;
}

export interface Executor {
  readonly order: LoadOrder;
  readonly loaded: Loaded;
  /** Resolves when all weights are in memory. Rejects with KernelZooError: network, artifact. */
  readonly stored: Promise<void>;
  /** True where a run may be asked for before the last one has ended. */
  readonly overlaps?: boolean;
  /** Does what can be done while the page does not know yet that runs may come. */
  warmUp?(): void;
  /** Hears that a run is about to be asked for. */
  soon?(): void;
  /**
   * Answers outputs for `feeds`, both in the plan's order; null where `aborted` said to stop. With
   * `timed` each call is timed, at any cost. Outputs may take the memory of `into`. Throws
   * WrongKernel, and KernelZooError: run, timeout.
   */
  run(
    feeds: readonly Stored[],
    aborted: () => boolean,
    timed?: boolean,
    into?: readonly Stored[],
  ): Promise<RunResult | null>;
  /**
   * Compares the golden outputs; false where `aborted` said to stop. Throws KernelZooError: compare
   * where an output is wrong, network, artifact; and as `run` does.
   */
  check(ports: Pick<ExecutorPorts, "progress">, aborted: () => boolean): Promise<boolean>;
  /** Copies a part of the memory of weights; nothing where that is lost. */
  read?(
    address: number,
    into: Uint8Array<ArrayBuffer>,
  ): Uint8Array<ArrayBuffer> | Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** Copies a plan that other threads can run, too; undefined where they cannot. */
  copy?(): PlanCopy | undefined;
  /** Answers what only a worker knows that keeps weights on the device. */
  keep?(asked: Keeping): Promise<KeepingAnswer>;
}
