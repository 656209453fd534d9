/** The golden inputs and outputs that travel with a plan, with entries as they lie in memory. */

import { maxDifference } from "../engine/difference.js";
import { viewOf } from "../engine/tensors.js";
import type { GoldenPart, PlanWire, PortWire } from "../wire/model-answer.js";

/** Entries of a tensor in memory. */
export type Stored = Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer>;

/** Parts of the golden file, in the order of `ports`. */
export const goldenParts = (
  file: ArrayBuffer,
  ports: readonly PortWire[],
  parts: readonly GoldenPart[],
): readonly Stored[] =>
  parts.map(({ offset, bytes }, i) => {
    const dtype = ports[i]?.dtype === "float32" ? "f32" : "i32";
    return viewOf(file, dtype, offset, bytes / 4) as Stored;
  });

/**
 * Returns whether no entry, or no more than `off` of them, differs by more than `tolerance` times
 * the largest one that is right.
 */
export function isNear(right: Stored, output: Stored, tolerance: number, off = 0): boolean {
  let largest = 0;
  for (const entry of right) {
    if (Number.isFinite(entry)) largest = Math.max(largest, Math.abs(entry));
  }
  if (maxDifference(right, output) <= tolerance * largest) return true;
  return off > 0 && countOff(right, output, tolerance * largest) <= off;
}

/** Counts entries that differ by more than `most`, or are no numbers where the right ones are. */
export function countOff(right: Stored, output: Stored, most: number): number {
  let count = 0;
  for (let i = 0; i < right.length; i++) {
    const [expected, own] = [right[i] as number, output[i] as number];
    if (!(Math.abs(expected - own) <= most || Object.is(expected, own))) count += 1;
  }
  return count;
}

/** The name of the first output that differs; undefined where all are right. */
export function wrongOutput(
  { outputs, golden }: PlanWire,
  computed: readonly Stored[],
  rights: readonly Stored[],
): string | undefined {
  const wrong = rights.findIndex(
    (right, i) => !isNear(right, computed[i] as Stored, golden.tolerance, golden.outputs[i]?.off),
  );
  return outputs[wrong]?.name;
}
