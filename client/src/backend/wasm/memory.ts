/**
 * Gives everything of a model a place in its one memory:
 *
 *     0    64                                                                 weights in order of first use
 *     |free| activations | scratch of each thread | control | arrivals | staging | plain or packed, as calls read them |
 *
 * A weight that calls read only packed must lie plain somewhere until it is packed, and runs use
 * what lies before the staging area meanwhile. Where weights come in their order, it lies in the
 * place of those behind it, which come later. The last weights have too little behind them: each is
 * held in its own place until the call that reads it comes, and is then packed out of room that
 * activations have left by then. The staging area is for weights for which there is no such room
 * either, and for those that come in no order. The scratch of pack kernels follows it.
 */
import { KernelZooError } from "../../engine/error.js";
import { packTensors } from "../../engine/packing.js";
import { ALIGNMENT, align, productOf, tensorBytes } from "../../engine/tensors.js";
import { type BucketCall, bucketCalls } from "../../executor/bucket-calls.js";
import { refuseMisfit } from "../../executor/call-tensors.js";
import { packOf } from "../../executor/kernel-parts.js";
import { CONTROL_WORDS } from "../../threads/chunks.js";
import { ARRIVAL_WORDS } from "../../weights/arrivals.js";
import type { PlanTensor, PlanWire } from "../../wire/model-answer.js";
import type { ArtifactWire, KernelWire } from "../../wire/types.js";
import { MOST_BYTES, UNADDRESSABLE } from "./addresses.js";

const PAGE_BYTES = 65_536;

/** One copy of a weight. `pack` is the kernel that makes it; null for a copy that lies plain. */
export interface WeightCopy {
  readonly pack: ArtifactWire | null;
  readonly address: number;
}

/**
 * One call. `words` are the addresses of its tensors; scratch follows where the kernel has any. It
 * needs the first `weights` weights of the file.
 */
export interface Task {
  readonly artifact: string;
  readonly extent: number;
  readonly words: readonly number[];
  readonly hasScratch: boolean;
  readonly weights: number;
}

export interface Placement {
  readonly tasks: readonly Task[];
  /** The calls of buckets. */
  readonly bucketTasks: readonly Task[];
  /** All copies of each weight; a plain one is the first. */
  readonly weights: readonly (readonly WeightCopy[])[];
  /** The address at which each weight comes to lie plain: as a copy, or until it is packed. */
  readonly plain: readonly number[];
  /** The address from which a weight held in its own place is packed; undefined for others. */
  readonly rooms: readonly (number | undefined)[];
  readonly activations: number;
  readonly packScratch: number;
  readonly scratch: number;
  /** Bytes from the scratch of one thread to that of the next. */
  readonly scratchStride: number;
  readonly control: number;
  /** Words of each weight, which say whether it is in memory. */
  readonly arrivals: number;
  readonly totalBytes: number;
}

/** The kernel of each workload of the plan, in its order. Throws KernelZooError (manifest). */
export type KernelOf = (workload: string) => KernelWire;

/** A memory of so many bytes, which may grow by the spare ones. Throws KernelZooError (memory). */
export function memoryOf(bytes: number, spareBytes = 0): WebAssembly.Memory {
  const initial = Math.ceil(bytes / PAGE_BYTES);
  const maximum = initial + Math.ceil(spareBytes / PAGE_BYTES);
  try {
    return new WebAssembly.Memory({ initial, maximum, shared: true });
  } catch (cause) {
    throw new KernelZooError(
      "memory",
      `The browser cannot give ${Math.ceil(bytes / 2 ** 20)} MiB. Dispose of some.`,
      cause,
    );
  }
}

/** The distinct copies of each weight that calls and outputs read, plain before packed. */
function wanted(plan: PlanWire, kernels: readonly KernelWire[]): (ArtifactWire | null)[][] {
  const copies = plan.weights.map(() => new Map<string, ArtifactWire | null>());
  const note = (tensor: PlanTensor | undefined, pack: ArtifactWire | null): void => {
    if (tensor?.weight !== undefined) copies[tensor.weight]?.set(pack?.sha256 ?? "", pack);
  };
  for (const { kernel, tensors } of [...plan.calls, ...bucketCalls(plan)]) {
    const used = kernels[kernel] as KernelWire;
    for (const [i, tensor] of tensors.entries()) note(plan.tensors[tensor], packOf(used, i));
  }
  for (const { tensor } of plan.outputs) note(plan.tensors[tensor], null);
  return copies.map((ways) => [...ways.values()].sort((a, b) => Number(!!a) - Number(!!b)));
}

/** Returns the address behind outputs and the tensors of calls from that of `weight` on. */
function roomFor(plan: PlanWire, weight: number): number {
  const first = plan.calls.findIndex(({ tensors }) =>
    tensors.some((tensor) => plan.tensors[tensor]?.weight === weight),
  );
  // Calls of buckets are told by inputs of their own what is spare.
  const kept = plan.axes ? [...plan.outputs, ...plan.inputs] : plan.outputs;
  const outputs = kept.map(({ tensor }) => tensor);
  const used = outputs.concat(...plan.calls.slice(first).map(({ tensors }) => tensors));
  const ends = used.map((tensor) => {
    const { at, shape } = plan.tensors[tensor] as PlanTensor;
    return at === undefined ? 0 : at + 4 * productOf(shape);
  });
  return ALIGNMENT + align(Math.max(...ends));
}

/** A copy's bytes. */
export const copyBytes = (pack: ArtifactWire | null, plain: number): number =>
  pack === null ? plain : tensorBytes(packTensors(pack).packed);

/**
 * `threads` run at once, each with scratch of its own. `inOrder` says that weights come one after the
 * other, and that no run needs what an earlier one has left. Throws KernelZooError: memory for what
 * WebAssembly cannot address, manifest for kernels that do not fit their calls.
 */
export function place(
  plan: PlanWire,
  kernelOf: KernelOf,
  threads: number,
  inOrder = false,
): Placement {
  const kernels = plan.kernels.map(kernelOf);
  for (const call of plan.calls) refuseMisfit(plan, call, kernels[call.kernel] as KernelWire);
  const ofBuckets = bucketCalls(plan);
  for (const call of ofBuckets) refuseMisfit(plan, call, kernels[call.kernel] as KernelWire, true);
  const copies = wanted(plan, kernels);

  // 1. What runs use.
  const activations = ALIGNMENT;
  const scratch = activations + align(plan.memory.activations);
  const scratchStride = align(Math.max(0, ...kernels.map((kernel) => kernel.scratch_bytes)));
  const control = scratch + threads * scratchStride;

  // 2. What packing takes, and weights.
  const arrivals = control + align(4 * CONTROL_WORDS);
  const arrivalWords = ARRIVAL_WORDS * plan.weights.length;
  const staging = arrivals + align(4 * arrivalWords);
  const sizes = copies.map((packs, i) =>
    packs.map((pack) => align(copyBytes(pack, plan.weights[i]?.bytes ?? 0))),
  );
  let behind = sizes.flat().reduce((sum, bytes) => sum + bytes, 0);
  let stagingBytes = 0;
  const rooms: (number | undefined)[] = [];
  const isBehind = plan.weights.map(({ bytes }, i) => {
    const [own = 0] = sizes[i] as number[];
    behind -= (sizes[i] as number[]).reduce((sum, bytes) => sum + bytes, 0);
    if (copies[i]?.[0] === null) return false;
    if (inOrder && bytes <= behind) return true;
    const room = roomFor(plan, i);
    if (inOrder && bytes <= own && room + bytes <= control) rooms[i] = room;
    else stagingBytes = Math.max(stagingBytes, align(bytes));
    return false;
  });
  const packScratch = staging + stagingBytes;
  const packing = copies.flat().map((pack) => pack?.scratch_bytes ?? 0);
  let end = packScratch + align(Math.max(0, ...packing));
  const plain: number[] = [];
  const weights = copies.map((packs, i) => {
    const start = end;
    const placed = packs.map((pack, copy): WeightCopy => {
      const address = end;
      end += sizes[i]?.[copy] as number;
      return { pack, address };
    });
    const inPlace = packs[0] === null || rooms[i] !== undefined;
    plain.push(inPlace ? start : isBehind[i] ? end : staging);
    return placed;
  });
  if (end > MOST_BYTES) {
    const size = `${Math.ceil(end / 2 ** 20)} MiB`;
    throw new KernelZooError("memory", `The model takes ${size}; ${UNADDRESSABLE}`);
  }

  // 3. Calls.
  const addressIn = (tensor: PlanTensor, pack: ArtifactWire | null): number => {
    if (tensor.weight === undefined) return activations + (tensor.at ?? 0);
    const own = weights[tensor.weight] as readonly WeightCopy[];
    return own.find((copy) => copy.pack?.sha256 === pack?.sha256)?.address as number;
  };
  const taskOf = ({ kernel, tensors }: Pick<BucketCall, "kernel" | "tensors">): Task => {
    const used = kernels[kernel] as KernelWire;
    return {
      artifact: used.sha256,
      extent: used.range_extent,
      words: tensors.map((t, i) => addressIn(plan.tensors[t] as PlanTensor, packOf(used, i))),
      hasScratch: used.scratch_bytes > 0,
      weights: Math.max(0, ...tensors.map((t) => 1 + (plan.tensors[t]?.weight ?? -1))),
    };
  };
  return {
    tasks: plan.calls.map(taskOf),
    bucketTasks: ofBuckets.map(taskOf),
    weights,
    plain,
    rooms,
    activations,
    packScratch,
    scratch,
    scratchStride,
    control,
    arrivals,
    totalBytes: end,
  };
}
