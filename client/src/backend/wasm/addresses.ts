/** Says how much of a model WebAssembly has addresses for. */
import type { PlanWire } from "../../wire/model-answer.js";

/** Kernels have addresses of 32 bits (docs/adr/0105). */
export const MOST_BYTES = 2 ** 32;

/** The remedy for a model that takes more. */
export const UNADDRESSABLE =
  "WebAssembly addresses 4096 MiB. Open it with WebGPU, smaller dimensions or weights of fewer bits.";

/** Tells whether weights and activations of a plan have addresses, by the least that they take. */
export const isAddressable = ({ memory }: Pick<PlanWire, "memory">): boolean =>
  memory.weights + memory.activations <= MOST_BYTES;
