/**
 * What a zoo answers for a model: its plan, and the kernels of a class of devices for it. A static
 * host has the same document in a file.
 */
import { KernelZooError } from "../engine/error.js";
import type { KernelWire, ModelManifest, TargetKind } from "./types.js";

/** The types of a page. In memory all but float32 are 32-bit integers, and a bool is 0 or 1. */
export type PortDType = "int64" | "int32" | "uint32" | "bool" | "uint8" | "float32";

/** An input or output of a model as a page knows it; `tensor` says where it lies. */
export interface PortWire {
  readonly name: string;
  readonly dtype: PortDType;
  readonly shape: readonly number[];
  readonly tensor: number;
  /** The least and the largest integer of an input that chooses rows of a table. */
  readonly rows?: readonly [number, number];
}

/** f16 is there in plans of formats 4, between inputs and outputs, and 5, which are for a GPU. */
type StoredDType = "f32" | "f16" | "i32";

/** `at` is an offset in the activations, `weight` and `state` are indices: a tensor has one of them. */
export interface PlanTensor {
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
  readonly at?: number;
  readonly weight?: number;
  readonly state?: number;
}

/** A tensor that a run leaves to the next one; zeros at first. */
export interface StateWire {
  readonly name: string;
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
}

/** What of the plan decodes a language model, a token a run. `token` to `chosen` are tensors. */
export interface DecoderWire {
  /** The tokens that it has room for. */
  readonly length: number;
  readonly vocabulary: number;
  readonly token: number;
  readonly position: number;
  readonly prompt: number;
  readonly logits: number;
  readonly chosen: number;
  /** Tokens of a prompt that the calls before `step` take; the others take one. */
  readonly rows: number;
  readonly step: number;
  /** Calls from here to the last but one are of use only where the next token is asked for. */
  readonly head: number;
  /** Tokens that end a text. */
  readonly stop: readonly number[];
}

/** As what a weight lies in the file; what the types mean says kernelzoo/domain/weight_storage.py. */
export interface StorageWire {
  readonly type: "plain" | "f16" | "int8" | "int4";
  /** A place in the file, once its chunks are inflated. */
  readonly offset: number;
  readonly bytes: number;
  /** That of int8's channels. */
  readonly axis?: number;
}

/** `bytes` of the weights file from `offset` on, row-major; of plain weights where `storage` is given. */
export interface WeightWire {
  readonly name: string;
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
  readonly offset: number;
  readonly bytes: number;
  readonly storage?: StorageWire;
}

export interface ChunkWire {
  readonly bytes: number;
  readonly sha256: string;
  /** Its bytes once it is inflated; none for one that is not deflated. */
  readonly inflated?: number;
}

/** `tensors` are the operands of the workload, the output last. */
export interface CallWire {
  readonly kernel: number;
  readonly tensors: readonly number[];
  readonly label: string;
}

export interface GoldenPart {
  readonly name: string;
  readonly offset: number;
  readonly bytes: number;
  /** So many entries of an output may be off, as rounding alone decides them; none unless told. */
  readonly off?: number;
}

export interface PlanWire {
  /** 2 with states, 3 with weights in fewer bits, 4 with values of f16, 5 with states of f16. */
  readonly format: 1 | 2 | 3 | 4 | 5;
  readonly model: string;
  readonly dimensions: Readonly<Record<string, number>>;
  readonly inputs: readonly PortWire[];
  readonly outputs: readonly PortWire[];
  readonly tensors: readonly PlanTensor[];
  readonly weights: readonly WeightWire[];
  readonly chunks: readonly ChunkWire[];
  readonly kernels: readonly string[];
  readonly calls: readonly CallWire[];
  readonly memory: { readonly weights: number; readonly activations: number };
  readonly golden: {
    readonly sha256: string;
    readonly inputs: readonly GoldenPart[];
    readonly outputs: readonly GoldenPart[];
    readonly tolerance: number;
    /** How far outputs are from those of weights in f32; told where weights have fewer bits. */
    readonly storage_error?: number;
  };
  readonly states?: readonly StateWire[];
  readonly decoder?: DecoderWire;
}

export interface ModelAnswer extends Omit<ModelManifest, "plan"> {
  readonly plan: PlanWire;
}

/** An address in an answer: absolute, or relative to the folder of the zoo. */
export const addressOf = (url: string, origin: string): URL =>
  new URL(url.startsWith("/") ? `.${url}` : url, origin);

/** What the kernels of an answer are for. A file may name no class of devices: it is for wasm. */
export const targetOf = ({ device_class }: ModelAnswer): TargetKind =>
  (/:(webgpu|javascript)/.exec(device_class)?.[1] as TargetKind | undefined) ?? "wasm";

/** The kernel of each workload, its default where it is replaced. */
export function kernelsOf({
  answer,
  replaced,
}: {
  readonly answer: ModelAnswer;
  readonly replaced: readonly string[];
}) {
  return (workload: string): KernelWire => {
    const served = answer.kernels[workload];
    if (served !== undefined) return replaced.includes(workload) ? served.fallback : served.kernel;
    throw new KernelZooError(
      "manifest",
      `No kernel of ${workload} is compiled yet. Try again in a few seconds.`,
    );
  };
}
