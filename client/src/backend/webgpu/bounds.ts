/** Refuses plans that need larger buffers, or more in a call, than a GPU binds. */
import { KernelZooError } from "../../engine/error.js";
import type { ModelAnswer, PlanTensor } from "../../wire/model-answer.js";
import type { KernelWire } from "../../wire/types.js";
import { storedBytes } from "./buffers.js";

/** A buffer that a call binds: each tensor is in one of its own, and so is scratch. */
interface Needed {
  readonly bytes: number;
  readonly tensor?: PlanTensor;
  readonly label: string;
}

const MIB = 2 ** 20;

type Limits = Pick<
  GPUSupportedLimits,
  "maxBufferSize" | "maxStorageBufferBindingSize" | "maxStorageBuffersPerShaderStage"
>;

/** The largest buffer that calls bind. `kernels` are in the order of the plan's. */
function largest({ plan }: ModelAnswer, kernels: readonly KernelWire[]): Needed | undefined {
  const needed = plan.calls.flatMap(({ kernel, tensors, label }): readonly Needed[] => {
    const { scratch_bytes: bytes } = kernels[kernel] as KernelWire;
    const own = tensors.map((index) => plan.tensors[index] as PlanTensor);
    return [
      { bytes, label },
      ...own.map((tensor) => ({ bytes: storedBytes(tensor), tensor, label })),
    ];
  });
  return needed.sort((one, other) => other.bytes - one.bytes)[0];
}

/** Throws KernelZooError (memory) for a plan of which a call binds more than the device does. */
export function refuseUnbindable(
  answer: ModelAnswer,
  kernels: readonly KernelWire[],
  limits: Limits,
): void {
  refuseMany(answer, kernels, limits);
  refuseLarge(answer, kernels, limits);
}

function refuseMany(
  { name, plan }: ModelAnswer,
  kernels: readonly KernelWire[],
  { maxStorageBuffersPerShaderStage: most }: Limits,
): void {
  for (const { kernel, tensors, label } of plan.calls) {
    const { scratch_bytes: scratch } = kernels[kernel] as KernelWire;
    const count = tensors.length + Number(scratch > 0);
    if (count <= most) continue;
    throw new KernelZooError(
      "memory",
      `${name} binds ${count} buffers at ${label}; this GPU binds ${most} at the most ` +
        "(maxStorageBuffersPerShaderStage). Run it on WebAssembly.",
    );
  }
}

function refuseLarge(
  answer: ModelAnswer,
  kernels: readonly KernelWire[],
  { maxBufferSize, maxStorageBufferBindingSize }: Limits,
): void {
  const most = Math.min(maxBufferSize, maxStorageBufferBindingSize);
  const needed = largest(answer, kernels);
  if (needed === undefined || needed.bytes <= most) return;
  const { bytes, tensor, label } = needed;
  const limit =
    maxBufferSize < maxStorageBufferBindingSize ? "maxBufferSize" : "maxStorageBufferBindingSize";
  const what = tensor === undefined ? "scratch" : `a tensor of shape [${tensor.shape.join(", ")}]`;
  const halves = tensor?.weight !== undefined && tensor.dtype === "f32";
  const remedy = halves ? "Add it with --dtype f16" : "Give it smaller dimensions";
  throw new KernelZooError(
    "memory",
    `${answer.name} needs ${Math.ceil(bytes / MIB)} MiB for ${what} at ${label}; this GPU binds ` +
      `${Math.floor(most / MIB)} MiB at the most (${limit}). ${remedy}.`,
  );
}
