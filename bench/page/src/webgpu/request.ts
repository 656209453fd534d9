/** What the benchmark asks of the page, in `job.json`, and what it answers. */
import type { GpuSamples } from "./entrant.js";

export interface GpuTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

export interface GpuCase {
  readonly name: string;
  /** A workload's key. */
  readonly workload: string;
  readonly flops: number;
  readonly seed: number;
  readonly tolerance: number;
  /** Inputs, then the output. */
  readonly tensors: readonly GpuTensor[];
  /** The input that is read once, where memory is the limit, else null. */
  readonly readsOnce: number | null;
}

export interface GpuJob {
  /** For all cases together; one that has begun is finished. */
  readonly limitMs: number;
  readonly rounds: number;
  /** For the rounds of one case. */
  readonly roundsLimitMs: number;
  readonly cases: readonly GpuCase[];
}

/** One thing that took part. */
export interface GpuResult extends GpuSamples {
  readonly name: string;
  readonly flops: number;
  readonly bytes: number;
  readonly difference: number | null;
  /** Of a call: the labels of their shaders. */
  readonly dispatches: readonly string[];
  /** Mean of the framework's own profile of its kernels, where it has one. */
  readonly profiledNs: number | null;
}

export interface GpuContest {
  readonly case: string;
  readonly results: readonly GpuResult[];
  /** By name, why something took no part. */
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

export interface GpuAnswer {
  readonly date: string;
  readonly browser: string;
  readonly adapter: GpuAdapterFacts;
  readonly clock: "timestamp" | "wall";
  readonly contests: readonly GpuContest[];
}
