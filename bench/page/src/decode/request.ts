/**
 * The messages in which the benchmark of decoders asks something of the page, in `job.json`, and
 * the page's answers.
 */
import type { Times, Tunable } from "../models/tuned.js";
import type { PageAnswer } from "../webgpu/request.js";

export interface DecoderRequest extends Required<Tunable> {
  readonly name: string;
  /** The type of our keys and values in memory. */
  readonly cache: "f32" | "f16";
  /** Tokens before those that are timed. */
  readonly contexts: readonly number[];
  /** So many are generated. */
  readonly tokens: number;
  readonly layers: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly vocabulary: number;
  readonly onnx: string;
  /** The ONNX file with activations that are not rounded to 8 bits. */
  readonly exact: string;
  /** A prompt, and the address of the logits behind it, as NumPy computes them. */
  readonly prompt: readonly number[];
  readonly logits: string;
}

/** The backend that decoders run on: ours and the peer's on the same. */
export interface Machine {
  readonly backend: "webgpu" | "wasm";
  /** Threads on WebAssembly. */
  readonly threads: number;
}

/** A way to decode in which ours goes without something, one thing at a time. */
export interface Variant {
  readonly name: string;
  /**
   * Bind groups are made once, and there are no uniforms; or there are uniforms, made once, too; or
   * both are made for each call of each token.
   */
  readonly reuse: "all" | "uniforms" | "nothing";
  /** Fetches that are under way while the next tokens are submitted. */
  readonly flights: number;
  /** Tokens that are fetched together. */
  readonly interval: number;
  /** The work that goes to the GPU at once. */
  readonly submission: "call" | "token" | "fetch";
}

export interface DecodingJob {
  readonly variants: readonly Variant[];
  readonly commit: string;
  readonly rounds: number;
  readonly tuneMs: number;
  readonly decoders: readonly DecoderRequest[];
}

/** Samples of each round: milliseconds until the first token is there, and of a token after it. */
export interface Decoded {
  readonly engine: string;
  readonly threads: number;
  readonly context: number;
  readonly interval: number;
  readonly prefillMs: readonly number[];
  readonly tokenMs: readonly number[];
}

export interface Varied extends Variant {
  readonly tokenMs: readonly number[];
}

/** Times on the GPU alone: of a token, and the mean of a kernel's calls in it. */
export interface Profile {
  readonly context: number;
  readonly tokenMs: number;
  readonly kernels: readonly {
    readonly workload: string;
    readonly calls: number;
    readonly us: number;
  }[];
}

export interface DecoderAnswer {
  readonly name: string;
  readonly cache: DecoderRequest["cache"];
  readonly calls: number;
  readonly tokens: number;
  readonly sameTokens: number;
  readonly differences: Readonly<Record<string, number>>;
  readonly decoded: readonly Decoded[];
  readonly varied: readonly Varied[];
  readonly profiles: readonly Profile[];
  /** The last block of a prompt in place of a token. */
  readonly blockProfiles: readonly Profile[];
  readonly times: Times;
  /** Workloads whose kernel is not the fastest alone, as a token or a block takes less with it. */
  readonly bySum: readonly string[];
  readonly failures: Readonly<Record<string, string>>;
}

export interface DecodingAnswer extends PageAnswer {
  readonly decoders: readonly DecoderAnswer[];
}

export interface WasmDecodingJob {
  /** Numbers of threads that decoders are compared on. */
  readonly threads: readonly number[];
  readonly rounds: number;
  readonly decoders: readonly DecoderRequest[];
}

export interface WasmDecoded {
  readonly name: string;
  readonly tokens: number;
  /** So many of the first tokens are the peer's. */
  readonly sameTokens: number;
  /** The largest difference of the peer's logits to NumPy's, as a share of the largest logit. */
  readonly difference: number;
  readonly decoded: readonly Decoded[];
}

export interface WasmDecodingAnswer {
  readonly decoders: readonly WasmDecoded[];
}
