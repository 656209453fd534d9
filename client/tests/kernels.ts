/** Tiny kernels of the ABI, `main(a, b, c, lo, hi)` over float32 entries, for tests. */
import { createHash } from "node:crypto";
import { fromBase64 } from "../src/engine/bytes.js";
import type { PlanWire } from "../src/wire/model-answer.js";
import type { ArtifactWire, KernelWire, Lease, TensorWire } from "../src/wire/types.js";

const HEAD = "AGFzbQEAAAABCQFgBX9/f39/AAISAQNlbnYGbWVtb3J5AgMBgIAEAwIBAAcIAQRtYWluAAAK";
const LOOP = "PAE6AAJAA0AgAyAETg0BIAIgA0ECdGogACADQQJ0aioCACABIANBAnRqKgIA";

const TEXTS = {
  /** c = a + b */
  add: `${HEAD}${LOOP}kjgCACADQQFqIQMMAAsLCw==`,
  /** c = a − b */
  subtract: `${HEAD}${LOOP}kzgCACADQQFqIQMMAAsLCw==`,
  /** Writes nothing. */
  idle: `${HEAD}BAECAAs=`,
  trap: `${HEAD}BQEDAAAL`,
  /** c = a + b, then a = c */
  accumulate:
    `${HEAD}UgFQAAJAA0AgAyAETg0BIAIgA0ECdGogACADQQJ0aioCACABIANBAnRqKgIAkjgCACAAIANBAnRqIAIgA0EC` +
    "dGoqAgA4AgAgA0EBaiEDDAALCws=",
  /** packed = −b: a pack kernel, `main(b, packed, lo, hi)`. */
  negate:
    "AGFzbQEAAAABCAFgBH9/f38AAhIBA2VudgZtZW1vcnkCAwGAgAQDAgEABwgBBG1haW4AAAoxAS8AAkADQCACIANODQEg" +
    "ASACQQJ0aiAAIAJBAnRqKgIAjDgCACACQQFqIQIMAAsLCw==",
} as const;

export type Tiny = keyof typeof TEXTS;

export const bytesOf = (name: Tiny): Uint8Array<ArrayBuffer> => fromBase64(TEXTS[name]);

const tensor = (name: string, role: TensorWire["role"], elements: number): TensorWire => {
  return { name, role, dtype: "f32", shape: [elements], limit: 0 };
};

function tinyArtifact(name: Tiny, elements: number, tensors: readonly TensorWire[]): ArtifactWire {
  const bytes = bytesOf(name);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return {
    sha256,
    url: `/v1/artifacts/${sha256}.wasm`,
    size_bytes: bytes.length,
    abi: 1,
    target: "wasm",
    requires: [],
    tensors,
    scratch_bytes: 0,
    range_extent: elements,
    dispatches: [],
  };
}

export function tinyKernel(name: Tiny, elements: number): KernelWire {
  const inputs = [tensor("a", "input", elements), tensor("b", "input", elements)];
  const made = tinyArtifact(name, elements, [...inputs, tensor("c", "output", elements)]);
  return { ...made, candidate: made.sha256.slice(0, 32), layouts: [] };
}

/** A kernel that may write its input a. */
export function tinyStateKernel(name: Tiny, elements: number): KernelWire {
  const made = tinyKernel(name, elements);
  const [a, ...others] = made.tensors as [TensorWire, ...TensorWire[]];
  return { ...made, tensors: [{ ...a, role: "state" }, ...others] };
}

/** c = a − packed, which is a + b: a kernel that wants its input b in another layout. */
export function tinyPackedKernel(elements: number): KernelWire {
  const tensors = [tensor("b", "input", elements), tensor("packed", "output", elements)];
  const pack = tinyArtifact("negate", elements, tensors);
  const layouts = [{ tensor: "b", layout: "negated", pack }];
  return { ...tinyKernel("subtract", elements), candidate: "f".repeat(32), layouts };
}

export function tinyLease(candidates: readonly KernelWire[], elements = 1000): Lease {
  return {
    lease: "lease-1",
    nonce: "nonce-1",
    expires_in_s: 60,
    workload: `add:f32:n${elements}`,
    flops: elements,
    seed: 7,
    tolerance: 1e-6,
    reference: tinyKernel("add", elements),
    candidates: [...candidates],
    measured: [],
    unmeasured: 0,
    complete: true,
  };
}

/** y = (x + w) + w, where the last of these workloads adds w again. */
export const tinyPlan = (elements: number, kernels: readonly string[]): PlanWire => ({
  needs: [],
  model: "tiny",
  dimensions: {},
  inputs: [{ name: "x", dtype: "float32", shape: [elements], tensor: 0 }],
  outputs: [{ name: "y", dtype: "float32", shape: [elements], tensor: 2 }],
  tensors: [
    { dtype: "f32", shape: [elements], at: 0 },
    { dtype: "f32", shape: [elements], weight: 0 },
    { dtype: "f32", shape: [elements], at: 64 },
  ],
  weights: [{ name: "w", dtype: "f32", shape: [elements], offset: 0, bytes: 4 * elements }],
  chunks: [],
  kernels,
  calls: [
    { kernel: 0, tensors: [0, 1, 2], label: "first" },
    { kernel: kernels.length - 1, tensors: [2, 1, 2], label: "second" },
  ],
  memory: { weights: 4 * elements, activations: 128 },
  golden: { sha256: "", inputs: [], outputs: [], tolerance: 1e-4 },
});
