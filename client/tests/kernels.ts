/** Tiny kernels of the ABI, `main(a, b, c, lo, hi)` over float32 entries, for tests. */
import { createHash } from "node:crypto";
import { fromBase64 } from "../src/engine/bytes.js";
import type { KernelWire, Lease } from "../src/wire/types.js";

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
} as const;

export type Tiny = keyof typeof TEXTS;

export const bytesOf = (name: Tiny): Uint8Array<ArrayBuffer> => fromBase64(TEXTS[name]);

export function tinyKernel(name: Tiny, elements: number): KernelWire {
  const bytes = bytesOf(name);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const shape = [elements];
  return {
    candidate: sha256.slice(0, 32),
    sha256,
    url: `/v1/artifacts/${sha256}.wasm`,
    size_bytes: bytes.length,
    abi: 1,
    kind: "wasm",
    requires: [],
    tensors: [
      { name: "a", role: "input", dtype: "f32", shape },
      { name: "b", role: "input", dtype: "f32", shape },
      { name: "c", role: "output", dtype: "f32", shape },
    ],
    scratch_bytes: 0,
    range_extent: elements,
    layouts: [],
    dispatches: [],
  };
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
