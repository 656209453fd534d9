/** The calls of a plan, and the kernel that each of them runs. */
import type { PlanWire, PortDType } from "../wire/model-answer.js";
import type { HitLevel, ServedKernel } from "../wire/types.js";

/** An input or output: `float32[1, 128, 768]`. */
export interface ModelTensor {
  readonly name: string;
  readonly dtype: PortDType;
  readonly shape: readonly number[];
}

export interface PlannedCall {
  /** The node of the model. */
  readonly label: string;
  readonly workload: string;
  /**
   * The level in the chain of the zoo that the kernel came from; `default` is what every device
   * gets, `page` what was found here.
   */
  readonly level: HitLevel | "page";
  /** The time when a kernel that was found here won; undefined for the zoo's. */
  readonly since?: Date;
  readonly candidate: string;
  /** The reason why the default runs in place of the zoo's kernel; null where the zoo's runs. */
  readonly fallbackReason: string | null;
  /**
   * The best time that devices of this class measured; null where none has, and where the default
   * runs in place of the zoo's kernel.
   */
  readonly predictedMs: number | null;
  /** Best time in this page; null before the second run. */
  readonly measuredMs: number | null;
}

/** Workloads whose kernel was replaced by its default, and why. */
export type Fallbacks = ReadonlyMap<string, string>;

export function plannedCalls(
  { calls, kernels }: PlanWire,
  served: Readonly<Record<string, ServedKernel>>,
  fallbacks: Fallbacks,
  measured: readonly number[],
): readonly PlannedCall[] {
  return calls.map(({ kernel, label }, i) => {
    const workload = kernels[kernel] as string;
    const { level, timing, ...used } = served[workload] as ServedKernel;
    const fallbackReason = fallbacks.get(workload) ?? null;
    const fell = fallbackReason !== null;
    const best = measured[i] as number;
    return {
      label,
      workload,
      level: fell ? "default" : level,
      candidate: (fell ? used.fallback : used.kernel).candidate,
      fallbackReason,
      predictedMs: timing === null || fell ? null : timing.best_ns / 1e6,
      measuredMs: Number.isFinite(best) ? best : null,
    };
  });
}
