/**
 * Describes what candidates are measured against. It comes with a lease, or from a model that runs
 * in this page.
 */
import type { Running } from "../tuning/messages.js";
import type { Lease } from "../wire/types.js";

/** Inputs are those of `seed`. `candidates` are all that a lease lends. */
export interface Subject extends Pick<Lease, "workload" | "tolerance" | "reference" | "seed"> {
  readonly candidates?: Lease["candidates"];
}

/** Below 2^31; no kernel can know the inputs that it will be compared on. */
const newSeed = (): number => (crypto.getRandomValues(new Uint32Array(1))[0] as number) >>> 1;

/** The kernel that runs is the reference. */
export const subjectOf = ({ workload, kernel, tolerance }: Running): Subject => ({
  ...{ workload, tolerance, reference: kernel, seed: newSeed() },
});
