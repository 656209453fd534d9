/**
 * The messages in which the benchmark asks something of the page, in `job.json`, and the page's
 * answers.
 */
import type { Lease } from "../../../../client/src/wire/types.js";
import type { GpuSamples } from "./entrant.js";

/** The lease has the reference and all candidates; their addresses are relative to the page. */
export interface GpuCase {
  readonly lease: Lease;
  /** The text that people read of each candidate. */
  readonly configs: Readonly<Record<string, string>>;
  /** The time of compiling one of them to WGSL, at the median; handed through. */
  readonly compileMs: number;
  /** The input that is read once, where memory is the limit, else null. */
  readonly readsOnce: number | null;
  /**
   * True where memory is the limit and the output is as large as what is read: it takes what a copy
   * takes.
   */
  readonly moves: boolean;
}

export interface GpuJob {
  /** The commit that the candidates were compiled from; handed through. */
  readonly commit: string;
  /** The time for all cases together; one that has begun is finished. */
  readonly limitMs: number;
  /** The time for tuning one case. */
  readonly tuneLimitMs: number;
  readonly rounds: { readonly least: number; readonly most: number };
  readonly cases: readonly GpuCase[];
}

/** One candidate, screened against the reference: bests of the same rounds. */
export interface GpuScreened {
  readonly candidate: string;
  readonly config: string;
  readonly relativeTime: number | null;
  /** The reason why there is no time; '' where there is one. */
  readonly failure: string;
  /** Calls of the candidate in one sample: few of a short kernel say that the sample was mostly overhead. */
  readonly calls: number;
  readonly samplesNs: readonly number[];
  readonly referenceNs: readonly number[];
}

/** One thing that took part: our finalists by their candidates, peers and limits. */
export interface GpuResult extends GpuSamples {
  readonly name: string;
  readonly flops: number;
  readonly bytes: number;
  readonly dispatches: readonly string[];
  readonly profiledNs: number | null;
  readonly difference: number | null;
}

export interface GpuContest {
  /** The lease's name and workload. */
  readonly case: string;
  readonly workload: string;
  readonly tolerance: number;
  readonly compileMs: number;
  /**
   * The candidates in the order of the space; without those that this device may not run, or for
   * which no time was left.
   */
  readonly screened: readonly GpuScreened[];
  readonly results: readonly GpuResult[];
  /** By name, why something took no part; by "ours" and "all" too. */
  readonly failures: Readonly<Record<string, string>>;
}

export interface GpuAdapterFacts {
  readonly vendor: string;
  readonly architecture: string;
  readonly subgroupMinSize: number;
  readonly subgroupMaxSize: number;
  readonly features: readonly string[];
  readonly limits: Readonly<Record<string, number>>;
}

/** The answer of every page with WebGPU, beside what it measured. */
export interface PageAnswer {
  readonly commit: string;
  readonly date: string;
  readonly browser: string;
  readonly adapter: GpuAdapterFacts;
  /** Releases of the peers, by name. */
  readonly peers: Readonly<Record<string, string>>;
}

export interface GpuAnswer extends PageAnswer {
  readonly contests: readonly GpuContest[];
}
