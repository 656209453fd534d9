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

/** Sums up how far entries are from those that are right, which may come in pieces. */
export class Deviation {
  #largest = 0;
  #worst = 0;

  add(right: Stored, output: Stored): void {
    for (const entry of right) {
      if (Number.isFinite(entry)) this.#largest = Math.max(this.#largest, Math.abs(entry));
    }
    // A difference that is no number is worse than any.
    const difference = maxDifference(right, output);
    this.#worst = Math.max(this.#worst, Number.isNaN(difference) ? Infinity : difference);
  }

  /** The most that an entry may differ: `tolerance` times the largest one that is right. */
  limit(tolerance: number): number {
    return tolerance * this.#largest;
  }

  isWithin(tolerance: number): boolean {
    return this.#worst <= this.limit(tolerance);
  }
}

/** Returns whether no entry, or no more than `off` of them, differs by more than the limit. */
export function isNear(right: Stored, output: Stored, tolerance: number, off = 0): boolean {
  const deviation = new Deviation();
  deviation.add(right, output);
  if (deviation.isWithin(tolerance)) return true;
  return off > 0 && countOff(right, output, deviation.limit(tolerance)) <= off;
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
