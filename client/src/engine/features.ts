import { fromBase64 } from "./bytes.js";

/** WebAssembly features that kernels may require. */
export type WasmFeature = "simd128" | "relaxed-simd";

/** One function each, `(v128, v128, v128) -> v128`, that uses one instruction of the feature. */
const MODULES: Readonly<Record<WasmFeature, string>> = {
  // f32x4.add
  simd128: "AGFzbQEAAAABCAFgA3t7ewF7AwIBAAoLAQkAIAAgAf3kAQs=",
  // f32x4.relaxed_madd
  "relaxed-simd": "AGFzbQEAAAABCAFgA3t7ewF7AwIBAAoNAQsAIAAgASAC/YUCCw==",
};

/** The features of this engine, sorted: what `WebAssembly.validate` accepts. */
export function wasmFeatures(): readonly WasmFeature[] {
  const names: readonly WasmFeature[] = ["relaxed-simd", "simd128"];
  return names.filter((name) => WebAssembly.validate(fromBase64(MODULES[name])));
}
