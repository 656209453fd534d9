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

/** Features that an engine has where it takes their instructions. */
type Instructions = "simd128" | "relaxed-simd";

/** The dot product of relaxed SIMD is exact for all bytes, taken as numbers with sign or without. */
type ByteDot = "dot-of-i8" | "dot-of-u8";

/** WebAssembly features that kernels may require. */
export type WasmFeature = Instructions | ByteDot;

/**
 * `f` returns what i32x4.relaxed_dot_i8x16_i7x16_add_s makes of the bytes 127, 127, -128, -128 and
 * -1, -1, -128, -128 in each lane.
 */
const DOT =
  "0061736d010000000105016000017f03020100070501016600000a1e011c0041fffe818478fd1141" +
  "ffff838478fd114100fd11fd9302fd1b000b";

/** One function each that uses an instruction of the feature, sorted. */
const MODULES: Readonly<Record<Instructions, string>> = {
  "relaxed-simd": DOT,
  // (v128, v128, v128) -> v128 by f32x4.add
  simd128: "0061736d0100000001080160037b7b7b017b030201000a0b01090020002001fde4010b",
};

/** The features of a device by that sum: others saturate sums of two products, or wrap them around. */
export const byteDotsOf = (sum: number): readonly ByteDot[] =>
  sum === 32_514 ? ["dot-of-i8"] : sum === 32_002 ? ["dot-of-u8"] : [];

/** V8 lowers the instruction in four ways: it has to be run. */
function byteDots(): readonly ByteDot[] {
  try {
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(fromHex(DOT)));
    return byteDotsOf((exports as { f: () => number }).f());
  } catch {
    // No such instruction, or a page that may not compile.
    return [];
  }
}

/**
 * The features of this engine, sorted: what `WebAssembly.validate` accepts, none without it, and
 * what dot products of bytes do.
 */
export function wasmFeatures(): readonly WasmFeature[] {
  const names = Object.keys(MODULES) as Instructions[];
  const valid = names.filter((name) => globalThis.WebAssembly?.validate(fromHex(MODULES[name])));
  return [...byteDots(), ...valid];
}
