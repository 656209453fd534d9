/**
 * The answer of a zoo for a model: its plan, and the kernels of a class of devices for it. A static
 * host has the same document in a file.
 */
import { KernelZooError } from "../engine/error.js";
import type { KernelWire, ModelManifest, Schemas, TargetKind } from "./types.js";

// A plan as kernelzoo/domain/plan.py has it, which says what its fields mean.
export type PlanWire = Schemas["Plan"];
/** The types of a page. In memory all but float32 are 32-bit integers, and a bool is 0 or 1. */
export type PortDType = Schemas["PortDType"];
export type PortWire = Schemas["Port"];
export type PlanTensor = Schemas["PlanTensor"];
export type DecoderWire = Schemas["PlanDecoder"];
export type EncoderWire = Schemas["PlanEncoder"];
export type StorageWire = Schemas["Storage"];
export type WeightWire = Schemas["Weight"];
export type ChunkWire = Schemas["Chunk"];
export type GoldenPart = Schemas["GoldenPart"];

export type ModelAnswer = ModelManifest;
/** Products of a plan multiply these: numbers of f32, or bytes. */
export type Precision = Schemas["Precision"];

/** An address in an answer: absolute, or relative to the folder of the zoo. */
export const addressOf = (url: string, origin: string): URL =>
  new URL(url.startsWith("/") ? `.${url}` : url, origin);

/** Returns the target of an answer's kernels; a file that names no class of devices is for wasm. */
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
      `No kernel of ${workload} is compiled yet. Try again soon.`,
    );
  };
}
