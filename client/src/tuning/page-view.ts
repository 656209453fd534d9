/** The view that a page has of a model that is tuned in it. */
import type { Pause } from "../agent/pauses.js";
import type { SentRequest } from "../agent/request-log.js";
import type { PlannedCall } from "../model/planned-calls.js";

/** A kernel that took the place of another between two runs. */
export interface Swap {
  readonly workload: string;
  /** The kernel that runs from now on, and the one that ran before. */
  readonly candidate: string;
  readonly before: string;
  /** Time of the new one over that of the one before. */
  readonly relativeTime: number;
  readonly since: Date;
}

/** A kernel that was taken back, as it trapped, disagreed with the zoo's, or is slower in runs. */
export interface Regression {
  readonly workload: string;
  readonly candidate: string;
  readonly reason: string;
}

export interface TuneOptions {
  /**
   * The number of times that this page will run the model, as far as it knows: for one run or few,
   * the model begins with the kernels that cost less in so many runs. They give way to the fastest
   * while the model is idle, where it runs on. Unless told, the fastest run from the start, as they
   * do with `save` and `tune`.
   */
  readonly runs?: number;
  /**
   * `idle`: while no run waits, this page measures further kernels of the model in a worker, and runs
   * those that are faster from the next run on. `off` unless told.
   */
  readonly tune?: "idle" | "off";
  /** Milliseconds of measuring in this visit; no end unless told. */
  readonly budgetMs?: number;
  /**
   * Makes the page an agent of the zoo, too, where it is tuned: devices like this one share what they
   * measure of the model, so that all of them have its fastest kernels sooner. What was sent of
   * late is in `tuning.sent`: ask your visitor before. A page of another origin than the zoo's names its
   * application, which the zoo's operator lets in. False unless told.
   */
  readonly contribute?: boolean | { readonly application: string };
}

export interface TuningEvents {
  readonly swap: Swap;
  readonly regression: Regression;
}

export interface ModelTuning {
  /**
   * `done`: nothing is left to measure, or the budget is spent. It measures again where a winner is
   * taken back thereafter and others were nearly as fast.
   */
  readonly state: "measuring" | "paused" | "done";
  /** Says why it is paused or done, or what it waits for; empty while it measures. */
  readonly reason: string;
  readonly pausedBecause: Pause | null;
  /** Time spent measuring in this visit. */
  readonly spentMs: number;
  /** Candidates that were measured, those that failed among them. */
  readonly measured: number;
  /** Candidates that were measured for the zoo; 0 unless `contribute` was asked for. */
  readonly contributed: number;
  /** The swaps of this visit, the latest last. */
  readonly swaps: readonly Swap[];
  /**
   * Requests of this visit, exactly as they went out, the latest last: the last 50 of `requests`.
   * Files of kernels, which are fetched as those of the model are, are not among them.
   */
  readonly sent: readonly SentRequest[];
  readonly requests: number;
  /** Stops measuring for good; kernels that were swapped in stay. */
  stop(): void;
  /** @internal */
  planned(calls: readonly PlannedCall[]): readonly PlannedCall[];
}
