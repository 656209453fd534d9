/**
 * The messages in which the benchmark asks something of the page. A lease is all that an agent
 * would be told.
 */
import type { KernelWire, Lease, PreparationWire } from "../../../client/src/wire/types.js";

/** A loop that only reads: `bytes` of tensor number `tensor`, in `extent` steps. */
export interface Reading {
  readonly url: string;
  readonly tensor: number;
  readonly extent: number;
}

export interface ScreenRequest {
  readonly lease: Lease;
  readonly hot: boolean;
}

export interface ContestRequest {
  readonly lease: Lease;
  /** Kernels that take part under the name of their candidate. */
  readonly finalists: readonly KernelWire[];
  readonly peers: boolean;
  readonly reading: Reading | null;
  readonly rounds: { readonly least: number; readonly most: number };
}

/** One thing that took part: nanoseconds of one call in each round. */
export interface Result {
  readonly name: string;
  readonly threads: number;
  readonly samplesNs: readonly number[];
  /** Floating-point operations of one call; 0 for a loop that only reads. */
  readonly flops: number;
  /** Largest difference to the reference's output; null where there is none to compare. */
  readonly difference: number | null;
}

/** One candidate, screened: its best time over the reference's. */
export interface Screened {
  readonly candidate: string;
  readonly relativeTime: number | null;
  /** The reason why there is no time; '' where there is one. */
  readonly failure: string;
}

/** The costs of a candidate in a page: before it is warm, and of each run then. */
export interface Costly {
  readonly candidate: string;
  /** Null where it does not run. */
  readonly costs: (PreparationWire & { readonly run_ns: number }) | null;
}
