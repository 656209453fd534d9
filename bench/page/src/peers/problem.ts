/** A workload as peers see it: named tensors with their data, and the right output. */
export interface PeerTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array;
  /** The entries of a tensor of i32, of which `data` has none. */
  readonly words?: Int32Array;
}

/** An operator to be computed, and its tensors. */
export interface Task {
  /** The operator as in the workload's key: `matmul`, `conv2d`. */
  readonly operator: string;
  /** Extents and attributes by their names in the key. */
  readonly given: Readonly<Record<string, number>>;
  /** Tensors are of float16; `data` has its values as float32. */
  readonly isF16: boolean;
  readonly inputs: readonly PeerTensor[];
  readonly output: { readonly name: string; readonly shape: readonly number[] };
}

export interface Problem extends Task {
  readonly flops: number;
  /** The reference kernel's output. */
  readonly output: PeerTensor;
}

/** Added to a variance before its root, as our layer norm does. */
export const VARIANCE_FLOOR = 1e-5;

/** Reads operator, dtype and extents of a key such as `conv2d:f32:b1h56w56c64o64kh3kw3stride1pad1`. */
export function parsedKey(key: string): Pick<Problem, "operator" | "given" | "isF16"> {
  const [operator = "", dtype, extents = ""] = key.split(":");
  const pairs = [...extents.matchAll(/([a-z]+)(\d+)/g)].map(([, axis, n]) => [axis, Number(n)]);
  return { operator, given: Object.fromEntries(pairs), isF16: dtype === "f16" };
}
