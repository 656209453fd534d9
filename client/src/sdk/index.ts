/**
 * Kernels for this device, from a zoo.
 *
 * ```ts
 * const zoo = await KernelZoo.open("https://zoo.example");
 * const kernel = await zoo.kernel("matmul:f32:m384k768n768");
 * kernel.inputs.a.set(activations); // float32[384, 768], row-major
 * kernel.inputs.b.set(weights);
 * const output = kernel.run(); // float32[384, 768], a view that the next run overwrites
 *
 * // Weights that stay the same are given once; kernels may keep them packed.
 * const layer = await zoo.kernel("matmul:f32:m1k768n3072", { constant: { b: weights } });
 * const hidden = layer.run({ a: activations });
 * ```
 */

export type { Float16View, GpuEntries } from "../backend/webgpu/buffers.js";
export { measurePeakGflops } from "../device/profile.js";
export { KernelZooError, type Stage } from "../engine/error.js";
export type { TensorView } from "../engine/tensors.js";
export type { Progress } from "../executor/messages.js";
export type { Sampling } from "../language/decode-order.js";
export type {
  GenerateEnd,
  GenerateOptions,
  LanguageModel,
  LanguageStats,
  SourceOptions,
} from "../language/language-model.js";
export type { LanguageOptions } from "../language/opener.js";
export type { Entries, Feed, TensorData } from "../model/feeds.js";
export type {
  AnyModel,
  ComparedPrecision,
  Fallback,
  FeedsOf,
  Model,
  ModelEvents,
  ModelPlan,
  ModelTypes,
  RunOptions,
} from "../model/model.js";
export type { GraphOptions } from "../model/model-cache.js";
export type { LoadOptions } from "../model/opener.js";
export type { ModelTensor, PlannedCall } from "../model/planned-calls.js";
export type { Profile, ProfiledCall, ProfileOptions, TraceEvent } from "../model/profile.js";
export type { ModelOptions } from "../model/runtime.js";
export type { ThreadCount } from "../threads/threads.js";
export type { ModelTuning, Regression, Swap } from "../tuning/page-view.js";
export type { PortDType, Precision } from "../wire/model-answer.js";
export type { Backend } from "./backend.js";
export type { GpuBuffers, GpuKernel } from "./gpu-kernel.js";
export type { KernelInfo } from "./info.js";
export { type InputValues, Kernel, type Verification } from "./kernel.js";
export type { InputsOf, InputViews, WorkloadKey } from "./names.js";
export { type ConstantOptions, type KernelOptions, KernelZoo, type OpenOptions } from "./zoo.js";
