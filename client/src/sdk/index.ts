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
export { measurePeakGflops } from "../device/profile.js";
export { KernelZooError, type Stage } from "../engine/error.js";
export type { TensorView } from "../engine/tensors.js";
export type { Float16View, GpuEntries } from "../gpu/buffers.js";
export type { LanguageOptions } from "../language/language.js";
export type {
  GenerateEnd,
  GenerateOptions,
  LanguageModel,
  LanguageStats,
} from "../language/model.js";
export type { Sampling } from "../language/order.js";
export type { PortDType } from "../runtime/answer.js";
export type { Entries, Feed, TensorData } from "../runtime/feeds.js";
export type { GraphOptions } from "../runtime/graphs.js";
export type { Progress } from "../runtime/messages.js";
export type {
  AnyModel,
  Fallback,
  FeedsOf,
  Model,
  ModelEvents,
  ModelPlan,
  ModelTypes,
  RunOptions,
} from "../runtime/model.js";
export type { ModelTensor, PlannedCall } from "../runtime/planned.js";
export type { Profile, ProfiledCall, ProfileOptions, TraceEvent } from "../runtime/profile.js";
export type { ModelOptions } from "../runtime/runtime.js";
export type { ThreadCount } from "../threads/threads.js";
export type { ModelTuning, Regression, Swap } from "../tuning/tuning.js";
export type { Backend } from "./backend.js";
export { type GpuBuffers, GpuKernel } from "./gpu-kernel.js";
export type { KernelInfo } from "./info.js";
export { type InputValues, Kernel, type Verification } from "./kernel.js";
export type { InputsOf, InputViews, WorkloadKey } from "./names.js";
export { type ConstantOptions, type KernelOptions, KernelZoo, type OpenOptions } from "./zoo.js";
