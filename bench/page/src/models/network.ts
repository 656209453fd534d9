/** A network as the benchmark serves it, and what an engine answers for it. */
import type { Switching } from "./switching.js";

export type DType = "float32" | "float64" | "int64" | "int32" | "bool" | "uint8";

export type Entries =
  | Float32Array<ArrayBuffer>
  | Float64Array<ArrayBuffer>
  | BigInt64Array<ArrayBuffer>
  | Int32Array<ArrayBuffer>
  | Uint8Array<ArrayBuffer>;

/** `url` has the entries, row-major and little-endian. */
export interface Tensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly url: string;
}

/** Entries of a weight begin at `offset`, counted in float32. */
export interface StoredWeight {
  readonly offset: number;
  readonly shape: readonly number[];
}

/** A step as `models/tensorflow.py` writes it. */
export interface Step {
  readonly operator: "conv" | "depthwise" | "add" | "maxPool" | "mean" | "product";
  readonly inputs: readonly string[];
  readonly output: string;
  readonly weights: readonly StoredWeight[];
  readonly stride: number;
  readonly pad: number;
  readonly window: number;
  readonly activation: "linear" | "relu" | "relu6";
}

/** Steps in their order, and the address of their weights. */
export interface TensorFlowNetwork {
  readonly steps: readonly Step[];
  readonly weights: string;
}

export interface Network {
  /** The ONNX file, what the zoo answers for the model, and what LiteRT's converter made of it. */
  readonly onnx: string;
  readonly zoo: string | null;
  /** The zoo answers this for the plan of a range that serves this extent, too. */
  readonly range: string | null;
  readonly tflite: string | null;
  readonly tensorflow: TensorFlowNetwork | null;
  /** Extents of the axes that the ONNX file leaves open. */
  readonly dimensions: Readonly<Record<string, number>>;
  readonly inputs: readonly Tensor[];
  /** Names of inputs that are constants of ours. */
  readonly constants: readonly string[];
  /** The outputs as PyTorch computed them. */
  readonly outputs: readonly Tensor[];
}

export type Values = Readonly<Record<string, Entries>>;

/** An input of a run, as a peer is given it. */
export interface Fed {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly entries: Entries;
}

/** A network that is loaded and has run once. It works in a worker of its own. */
export interface Engine {
  readonly name: string;
  readonly threads: number;
  /** The outputs of its first run. */
  readonly outputs: Values;
  run(): Promise<Values>;
  /**
   * Stops a run after so many milliseconds: how many pass from then until it is rejected, null where it
   * was over before.
   */
  readonly abortMs?: (afterMs: number) => Promise<number | null>;
  /** Resolves when the device keeps what a later visit reads. */
  readonly kept?: () => Promise<void>;
  /** Watches how kernels for few runs give way to others. */
  readonly switching?: () => Promise<Switching>;
  dispose(): Promise<void>;
}

const ENTRIES = {
  float32: Float32Array,
  float64: Float64Array,
  int64: BigInt64Array,
  int32: Int32Array,
  bool: Uint8Array,
  uint8: Uint8Array,
} satisfies Record<DType, new (buffer: ArrayBuffer) => Entries>;

export async function bytesAt(url: string): Promise<ArrayBuffer> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} answers ${response.status}`);
  return response.arrayBuffer();
}

export async function valuesOf(tensors: readonly Tensor[]): Promise<Values> {
  const read = async ({ name, dtype, url }: Tensor): Promise<readonly [string, Entries]> => {
    return [name, new ENTRIES[dtype](await bytesAt(url))];
  };
  return Object.fromEntries(await Promise.all(tensors.map(read)));
}

/**
 * The largest difference of an entry, as a share of the largest magnitude of its output, or as it is
 * where all are 0. Entries that are no numbers in both are equal.
 */
export function relativeDifference(found: Values, right: Values): number {
  let worst = 0;
  for (const [name, wanted] of Object.entries(right)) {
    const given = found[name];
    if (given?.length !== wanted.length) throw new Error(`the output ${name} is missing or short`);
    let largest = 0;
    let apart = 0;
    for (let i = 0; i < wanted.length; i++) {
      const value = Number(wanted[i]);
      if (Object.is(value, Number(given[i]))) {
        if (Number.isFinite(value)) largest = Math.max(largest, Math.abs(value));
        continue;
      }
      const difference = Math.abs(Number(given[i]) - value);
      largest = Math.max(largest, Math.abs(value));
      // Also where one is not a number.
      if (!(difference <= apart)) apart = difference;
    }
    const share = apart / (largest || 1);
    if (!(share <= worst)) worst = share;
  }
  // JSON has no number for what is none.
  return Number.isFinite(worst) ? worst : Number.MAX_VALUE;
}
