import { fromHex } from "./bytes.js";
import { sentence } from "./error.js";

/** The shortest module there is: nothing but its header. */
const EMPTY = "0061736d01000000";

/** Says why the page may not run WebAssembly; null where it may. */
export function forbiddenReason(): string | null {
  try {
    new WebAssembly.Module(fromHex(EMPTY));
    return null;
  } catch (cause) {
    return (
      "This page may not run WebAssembly: it is off, or the " +
      `Content-Security-Policy lacks 'wasm-unsafe-eval'. (${sentence(cause)})`
    );
  }
}

/** WebAssembly features that kernels may require. */
export type WasmFeature = "simd128" | "relaxed-simd";

/** One function each, `(v128, v128, v128) -> v128`, that uses one instruction of the feature. */
const MODULES: Readonly<Record<WasmFeature, string>> = {
  // f32x4.add
  simd128: "0061736d0100000001080160037b7b7b017b030201000a0b01090020002001fde4010b",
  // f32x4.relaxed_madd
  "relaxed-simd": "0061736d0100000001080160037b7b7b017b030201000a0d010b00200020012002fd85020b",
};

/** The features of this engine, sorted: what `WebAssembly.validate` accepts; none without it. */
export function wasmFeatures(): readonly WasmFeature[] {
  const names: readonly WasmFeature[] = ["relaxed-simd", "simd128"];
  return names.filter((name) => globalThis.WebAssembly?.validate(fromHex(MODULES[name])));
}
