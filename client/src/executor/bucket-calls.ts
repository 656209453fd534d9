/** The calls that a run of a short extent makes in the place of those of the largest. */
import type { PlanWire } from "../wire/model-answer.js";
import type { Stored } from "./golden-tensors.js";

/** A call that runs in the place of number `call` of the plan, told by number `input` what is spare. */
export interface BucketCall {
  readonly call: number;
  readonly kernel: number;
  readonly tensors: readonly number[];
  readonly input: number;
}

/** The calls of all buckets, of the shortest first. */
export const bucketCalls = ({ axes = [], calls, inputs }: PlanWire): readonly BucketCall[] =>
  axes.flatMap(({ input: ofAxis, buckets = [] }) =>
    buckets.flatMap(({ input, kernels }) =>
      calls.flatMap(({ kernel, tensors }, call) => {
        const [, own] = kernels.find(([replaced]) => replaced === kernel) ?? [];
        const given = [...tensors];
        // What is spare is told to a kernel before its output; another call has it of another axis.
        const spareAt = given.length - 2;
        if (own === undefined || given[spareAt] !== inputs[ofAxis]?.tensor) return [];
        given[spareAt] = inputs[input]?.tensor as number;
        return { call, kernel: own as number, tensors: given, input };
      }),
    ),
  );

/**
 * Says which of the calls of buckets a run makes: their numbers, by the calls in whose place they
 * run.
 */
export function insteadFor(
  { axes = [] }: PlanWire,
  all: readonly BucketCall[],
  feeds: readonly Stored[],
): ReadonlyMap<number, number> {
  const chosen = axes.map(({ most, input, buckets = [] }) => {
    const extent = most - (feeds[input]?.[0] as number);
    return buckets.find((bucket) => extent <= bucket.most)?.input;
  });
  return new Map(
    all.flatMap(({ call, input }, i) => (chosen.includes(input) ? [[call, i] as const] : [])),
  );
}
