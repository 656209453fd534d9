import type { TensorView } from "../engine/views.js";

/** Row-major views of inputs, by name. */
export type InputViews = Readonly<Record<string, TensorView>>;

interface Product {
  a: Float32Array;
  b: Float32Array;
}

/** Inputs by operator, so that `kernel.inputs.indices` is known to be there and of whole numbers. */
interface Operators {
  matmul: Product;
  matmul_nt: Product;
  matmul_tn: Product;
  batch_matmul: Product;
  batch_matmul_nt: Product;
  matmul_i8: { a: Float32Array; b: Int8Array };
  matmul_nt_i8: { a: Float32Array; b: Int8Array };
  gather: { a: Float32Array; indices: Int32Array };
}

type OfOperator<Name> = Name extends keyof Operators
  ? Operators[Name]
  : Record<string, Float32Array>;

type OfEpilogue<Parts> = Parts extends `${infer Part}+${infer Rest}`
  ? OfEpilogue<Part> & OfEpilogue<Rest>
  : Parts extends "bias" | "residual" | "scale" | "scales"
    ? Record<Parts, Float32Array>
    : unknown;

/** Inputs of a workload key; of any name where the key is no literal. */
export type InputsOf<Key extends string> = Key extends `${infer Name}:${string}`
  ? Name extends `${infer Operator}+${infer Parts}`
    ? OfOperator<Operator> & OfEpilogue<Parts>
    : OfOperator<Name>
  : InputViews;

const CONSTANT = ":constant=";
/** Inputs that kernels gain from when they stay the same. */
const WEIGHTS = "b";

/** The inputs that a key says are constant. */
export function constantsOf(key: string): readonly string[] {
  return key.split(CONSTANT)[1]?.split("+") ?? [];
}

/** The key to prefer where a page promises not to change the inputs `constant`. */
export function constantKey(key: string, constant: readonly string[]): string {
  return constant.includes(WEIGHTS) ? `${key}${CONSTANT}${WEIGHTS}` : key;
}

const EXTENT = /[a-z](\d+)/g;

/** The command that registers a workload, as in `kernelzoo tune matmul 384x768x768`. */
export function registerCommand(key: string): string {
  const [operator = key, dtype, extents = ""] = key.split(":");
  if (dtype === "f16") return `kernelzoo tune ${key} --target webgpu`;
  if (key.includes(CONSTANT)) return `kernelzoo tune ${key}`;
  const sizes = [...extents.matchAll(EXTENT)].map(([, size]) => size);
  return `kernelzoo tune ${operator} ${sizes.join("x")}`.trimEnd();
}
