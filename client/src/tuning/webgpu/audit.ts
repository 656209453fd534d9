/**
 * Runs a call of a kernel that was swapped in beside the kernel that ran before, on the numbers of a
 * real inference: one call in so many runs, so that it costs a fixed small share.
 */
import type { BoundProgram } from "../../backend/webgpu/binding.js";
import {
  padded,
  stagingBuffer,
  storageBuffer,
  storedBytes,
  viewOfStored,
} from "../../backend/webgpu/buffers.js";
import type { BesideCall, GpuExecutor } from "../../backend/webgpu/executor.js";
import type { BufferOf } from "../../backend/webgpu/memory.js";
import { LIMIT_MS } from "../../backend/webgpu/plan-loader.js";
import { isNear, type Stored } from "../../executor/golden-tensors.js";
import type { PlanTensor } from "../../wire/model-answer.js";

/** Runs for each in which a call is audited: a call takes no longer than its run. */
export const RUNS = 50;

/** The tensor that a call writes, and the buffer that it is in. */
export function outputOf({ order, buffers }: GpuExecutor, call: number) {
  const { plan } = order.answer;
  const operands = buffers.placement.calls[call] as readonly BufferOf[];
  return {
    tensor: plan.tensors[plan.calls[call]?.tensors.at(-1) as number] as PlanTensor,
    buffer: buffers.of(operands.at(-1) as BufferOf),
  };
}

interface Watched {
  readonly workload: string;
  readonly call: number;
  readonly before: BoundProgram;
}

/** One call in one run. Owns its buffers until it is disposed. */
class AuditedCall {
  readonly workload: string;
  readonly beside: BesideCall & { readonly before: BoundProgram };
  readonly #executor: GpuExecutor;
  readonly #output: PlanTensor;
  readonly #bytes: number;
  readonly #spare: GPUBuffer;
  readonly #staging: GPUBuffer;

  constructor(executor: GpuExecutor, { workload, call, before }: Watched) {
    const { open, buffers } = executor;
    this.workload = workload;
    this.#executor = executor;
    const { tensor, buffer: output } = outputOf(executor, call);
    this.#output = tensor;
    this.#bytes = padded(storedBytes(this.#output));
    this.#spare = storageBuffer(open.device, this.#bytes);
    this.#staging = stagingBuffer(open.device, 2 * this.#bytes);
    const copy = (from: GPUBuffer, offset: number) => {
      return { from, at: 0, to: this.#staging, offset, bytes: this.#bytes };
    };
    this.beside = {
      call,
      before: buffers.bound(call, before.program, this.#spare),
      copies: [copy(this.#spare, 0), copy(output, this.#bytes)],
    };
  }

  /**
   * Returns whether both kernels computed the same, once the run has ended. Throws KernelZooError:
   * run.
   */
  async agrees(): Promise<boolean> {
    const { open, order } = this.#executor;
    const bytes = storedBytes(this.#output);
    await open.settled(this.#staging.mapAsync(GPUMapMode.READ), LIMIT_MS);
    const [right, computed] = [0, this.#bytes].map((at) => {
      const held = this.#staging.getMappedRange(at, this.#bytes);
      return viewOfStored(this.#output, held.slice(0, bytes)) as Stored;
    });
    return isNear(right as Stored, computed as Stored, order.answer.plan.golden.tolerance);
  }

  dispose(): void {
    this.#spare.destroy();
    this.#staging.destroy();
    this.beside.before.dispose();
  }
}

export class GpuAudit {
  readonly #executor: GpuExecutor;
  /** Calls that wait for their audit, in turn. */
  #turn: readonly Watched[] = [];
  /** Runs since the last audit, and those that were saved up before. */
  #runs = 0;

  constructor(executor: GpuExecutor) {
    this.#executor = executor;
  }

  watch(workload: string, before: ReadonlyMap<number, BoundProgram>): void {
    this.forget(workload);
    const watched = [...before].map(([call, program]) => ({ workload, call, before: program }));
    this.#turn = [...this.#turn, ...watched];
  }

  forget(workload: string): void {
    this.#turn = this.#turn.filter((watched) => watched.workload !== workload);
  }

  /** Returns the call to audit in the run that begins; mostly null. Throws KernelZooError: run. */
  async next(): Promise<AuditedCall | null> {
    this.#runs += 1;
    const [first, ...others] = this.#turn;
    if (first === undefined || this.#runs < RUNS) return null;
    this.#runs -= RUNS;
    this.#turn = [...others, first];
    return withRoom(this.#executor, () => new AuditedCall(this.#executor, first));
  }
}

/**
 * Returns what `make` makes; null where there is no room for a call's output. Throws KernelZooError
 * (run) for a lost device.
 */
export async function withRoom<T>({ open }: GpuExecutor, make: () => T): Promise<T | null> {
  try {
    return await open.scoped(make, LIMIT_MS);
  } catch (thrown) {
    if (open.loss !== null) throw thrown;
    return null;
  }
}
