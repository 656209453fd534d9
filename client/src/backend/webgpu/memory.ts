/**
 * Gives each tensor of a plan a buffer. A plan gives addresses in one memory; on a GPU a kernel may
 * not read and write the same buffer, so values that are not needed at the same time share whole
 * buffers, and a call that would write in place writes to another one.
 */
import { KernelZooError } from "../../engine/error.js";
import { bucketCalls } from "../../executor/bucket-calls.js";
import type { PlanTensor, PlanWire } from "../../wire/model-answer.js";
import { storedBytes } from "./buffers.js";

/** One of the buffers that runs share, or that of a weight or a state. */
export type BufferOf =
  | { readonly kind: "shared"; readonly index: number }
  | { readonly kind: "weight" | "state"; readonly index: number };

export interface GpuPlacement {
  /** Bytes of each shared buffer. */
  readonly sizes: readonly number[];
  /** The tensors of each call, in the order of the plan, and behind them those of buckets. */
  readonly calls: readonly (readonly BufferOf[])[];
  readonly inputs: readonly BufferOf[];
  readonly outputs: readonly BufferOf[];
  /** The number of calls after which each output is there. */
  readonly ready: readonly number[];
}

/** The entries that a call or a feed writes, kept until their last reader has run. */
interface Value {
  readonly bytes: number;
  readonly first: number;
  last: number;
}

/** A tensor as an index into values, or a buffer of its own. */
type OperandSource = { readonly value: number } | BufferOf;

/** Follows a plan's addresses: each read is of what was written there last. */
class Trace {
  readonly values: Value[] = [];
  readonly #plan: PlanWire;
  readonly #written = new Map<number, number>();

  constructor(plan: PlanWire) {
    this.#plan = plan;
  }

  write(tensor: number, time: number): OperandSource {
    const { at = 0, state, ...written } = this.#tensor(tensor);
    if (state !== undefined) return { kind: "state", index: state };
    this.#written.set(at, this.values.length);
    this.values.push({ bytes: storedBytes(written), first: time, last: time });
    return { value: this.values.length - 1 };
  }

  /** Throws KernelZooError (manifest) for a tensor that nothing has written. */
  read(tensor: number, time: number): OperandSource {
    const { at = 0, weight, state, ...read } = this.#tensor(tensor);
    if (weight !== undefined) return { kind: "weight", index: weight };
    if (state !== undefined) return { kind: "state", index: state };
    const index = this.#written.get(at) ?? -1;
    const value = this.values[index];
    if (value === undefined || value.bytes < storedBytes(read)) {
      throw new KernelZooError(
        "manifest",
        `Tensor ${tensor} of the plan is read but never written.`,
      );
    }
    value.last = time;
    return { value: index };
  }

  #tensor(index: number): PlanTensor {
    return this.#plan.tensors[index] as PlanTensor;
  }
}

/** The shared buffer of each value: the smallest free one that it fits, else the largest, grown. */
function sharedBuffers(values: readonly Value[]): { of: readonly number[]; sizes: number[] } {
  const sizes: number[] = [];
  const busyUntil: number[] = [];
  const of = values.map(({ bytes, first, last }) => {
    const free = sizes.map((_, i) => i).filter((i) => (busyUntil[i] as number) < first);
    free.sort((a, b) => (sizes[a] as number) - (sizes[b] as number));
    const index = free.find((i) => (sizes[i] as number) >= bytes) ?? free.at(-1) ?? sizes.length;
    sizes[index] = Math.max(sizes[index] ?? 0, bytes);
    busyUntil[index] = last;
    return index;
  });
  return { of, sizes };
}

/** Throws KernelZooError (manifest) for a plan that reads what it never writes. */
export function placeOnGpu(plan: PlanWire): GpuPlacement {
  const trace = new Trace(plan);
  const inputs = plan.inputs.map(({ tensor }) => trace.write(tensor, -1));
  const calls = plan.calls.map(({ tensors }, time) => [
    ...tensors.slice(0, -1).map((tensor) => trace.read(tensor, time)),
    trace.write(tensors.at(-1) as number, time),
  ]);
  // A call of a bucket has the tensors of another one, but for what tells it how many are spare.
  for (const { call, input } of bucketCalls(plan)) {
    const operands = [...(calls[call] as OperandSource[])];
    operands[operands.length - 2] = trace.read(plan.inputs[input]?.tensor as number, Infinity);
    calls.push(operands);
  }
  const outputs = plan.outputs.map(({ tensor }) => trace.read(tensor, plan.calls.length));
  const { of, sizes } = sharedBuffers(trace.values);
  const readyOf = (source: OperandSource): number =>
    "kind" in source ? plan.calls.length : (trace.values[source.value] as Value).first + 1;
  const bufferOf = (source: OperandSource): BufferOf =>
    "kind" in source ? source : { kind: "shared", index: of[source.value] as number };
  return {
    sizes,
    calls: calls.map((operands) => operands.map(bufferOf)),
    inputs: inputs.map(bufferOf),
    outputs: outputs.map(bufferOf),
    ready: outputs.map(readyOf),
  };
}
