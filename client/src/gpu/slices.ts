/**
 * A kernel of several dispatches as one range of slices, so that a submission may hold any part of
 * it. All slices are of `unit` workgroups; the last one of a dispatch may be smaller.
 */

/** Fine enough that a slice of a kernel that takes a minute ends before a watchdog looks. */
const SLICES = 64;

export interface SlicePlan {
  readonly unit: number;
  /** Workgroups of each dispatch. */
  readonly workgroups: readonly number[];
  /** First workgroups of the slices of the longest dispatch, in order. */
  readonly firsts: readonly number[];
  /** Slices of all dispatches together. */
  readonly count: number;
}

/** One `dispatchWorkgroups`: its first workgroup is `firsts[slice]`. */
export interface Launch {
  readonly dispatch: number;
  readonly slice: number;
  readonly workgroups: number;
}

/** `most` workgroups fit into one dimension. */
export function planSlices(workgroups: readonly number[], most: number): SlicePlan {
  const longest = Math.max(...workgroups);
  const unit = Math.min(Math.ceil(longest / SLICES), most);
  const firsts = Array.from({ length: Math.ceil(longest / unit) }, (_, i) => i * unit);
  const count = workgroups.reduce((sum, each) => sum + Math.ceil(each / unit), 0);
  return { unit, workgroups, firsts, count };
}

/** Slices [lo, hi) in as few launches as possible, in order. */
export function launches(plan: SlicePlan, lo: number, hi: number, most: number): readonly Launch[] {
  const made: Launch[] = [];
  const together = Math.floor(most / plan.unit);
  let start = 0;
  for (const [dispatch, all] of plan.workgroups.entries()) {
    const end = start + Math.ceil(all / plan.unit);
    const last = Math.min(hi, end) - start;
    for (let slice = Math.max(lo, start) - start; slice < last; slice += together) {
      const until = Math.min(Math.min(slice + together, last) * plan.unit, all);
      made.push({ dispatch, slice, workgroups: until - slice * plan.unit });
    }
    start = end;
  }
  return made;
}
