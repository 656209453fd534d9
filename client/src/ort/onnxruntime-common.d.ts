/**
 * The parts of the package onnxruntime-common that are used here. A project has it with
 * onnxruntime-web, and its declarations then; tests/browser/test_ort.py holds ours to them.
 */
declare module "onnxruntime-common" {
  export namespace Tensor {
    type Type =
      | "float32"
      | "uint8"
      | "int8"
      | "uint16"
      | "int16"
      | "int32"
      | "int64"
      | "string"
      | "bool"
      | "float16"
      | "float64"
      | "uint32"
      | "uint64"
      | "uint4"
      | "int4";
    type DataType =
      | Float32Array
      | Uint8Array
      | Int8Array
      | Uint16Array
      | Int16Array
      | Int32Array
      | BigInt64Array
      | Float64Array
      | Uint32Array
      | BigUint64Array
      | string[];
  }

  export interface Tensor {
    readonly type: Tensor.Type;
    readonly dims: readonly number[];
    readonly data: Tensor.DataType;
    readonly size: number;
    readonly location: "none" | "cpu" | "cpu-pinned" | "texture" | "gpu-buffer" | "ml-tensor";
    readonly gpuBuffer: object;
    readonly mlTensor: object;
    getData(releaseData?: boolean): Promise<Tensor.DataType>;
    dispose(): void;
  }

  export const Tensor: {
    new (type: Tensor.Type, data: Tensor.DataType, dims?: readonly number[]): Tensor;
    fromGpuBuffer(buffer: never, options: never): Tensor;
    fromMLTensor(tensor: never, options: never): Tensor;
  };

  export namespace InferenceSession {
    type FeedsType = { readonly [name: string]: Tensor };
    type FetchesType = readonly string[] | { readonly [name: string]: Tensor | null };
    type ReturnType = { readonly [name: string]: Tensor };
    interface ExternalDataFile {
      readonly path: string;
      readonly data: unknown;
    }
    interface SessionOptions {
      executionProviders?: readonly (string | { readonly name: string })[];
      freeDimensionOverrides?: { readonly [name: string]: number };
      preferredOutputLocation?: string | { readonly [name: string]: string };
      enableGraphCapture?: boolean;
      externalData?: readonly (string | ExternalDataFile)[];
    }
    type RunOptions = object;
    type ValueMetadata =
      | { readonly name: string; readonly isTensor: false }
      | {
          readonly name: string;
          readonly isTensor: true;
          readonly type: Tensor.Type;
          readonly shape: readonly (number | string)[];
        };
  }

  export interface InferenceSession {
    run(
      feeds: InferenceSession.FeedsType,
      options?: InferenceSession.RunOptions,
    ): Promise<InferenceSession.ReturnType>;
    run(
      feeds: InferenceSession.FeedsType,
      fetches: InferenceSession.FetchesType,
      options?: InferenceSession.RunOptions,
    ): Promise<InferenceSession.ReturnType>;
    release(): Promise<void>;
    startProfiling(): void;
    endProfiling(): void;
    readonly inputNames: readonly string[];
    readonly outputNames: readonly string[];
    readonly inputMetadata: readonly InferenceSession.ValueMetadata[];
    readonly outputMetadata: readonly InferenceSession.ValueMetadata[];
  }

  export interface Env {
    readonly wasm: { numThreads?: number };
    readonly webgpu: object;
    readonly webgl: object;
    readonly versions: object;
    logLevel?: "verbose" | "info" | "warning" | "error" | "fatal";
    debug?: boolean;
    trace?: boolean;
  }
  export const env: Env;
}
