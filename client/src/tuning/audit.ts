/**
 * Runs calls of a kernel that was swapped in beside the kernel that ran before, on the numbers of real
 * inferences: a few in time, so that it costs a fixed small share.
 */
import type { Arena, Block } from "../engine/arena.js";
import { align, viewOf } from "../engine/tensors.js";
import { type PlanTensor, productOf } from "../runtime/answer.js";
import type { CallTimes, Ready, Watch } from "../runtime/dispatch.js";
import { type Engine, WrongKernel } from "../runtime/engine.js";
import { isNear, type Stored } from "../runtime/golden.js";

/** The share of the time of inferences. */
const SHARE = 0.02;

export class Audit {
  readonly #engine: Engine;
  readonly #arena: Arena;
  /** Milliseconds that audits may take. */
  #allowedMs = 0;
  /** Calls that wait for their audit, in turn. */
  #turn: number[] = [];
  /** Where the output of the kernel before is, during an audit. */
  #spare: Block | null = null;

  constructor(engine: Engine, arena: Arena) {
    this.#engine = engine;
    this.#arena = arena;
  }

  clear(): void {
    this.#turn = [];
  }

  /** An inference ended. */
  ran(times: CallTimes): void {
    const last = times.length - 3;
    this.#allowedMs += SHARE * ((times[last] ?? 0) + (times[last + 1] ?? 0));
  }

  /** Audits a call now and then. It throws WrongKernel (compare) where the kernels disagree. */
  watch(workload: string, call: number, { task }: Ready, before: Ready): Watch {
    this.#turn = [...this.#turn.filter((each) => each !== call), call];
    return {
      before: () => {
        this.#close();
        if (this.#isDue(call, before)) this.#runBefore(call, before);
      },
      after: () => {
        if (this.#spare === null) return;
        const agree = this.#agree(call, this.#spare, task.words.at(-1) as number);
        this.#close();
        if (agree) return;
        const message = "It disagrees with the kernel before on an inference's numbers.";
        const { artifact } = task;
        throw new WrongKernel({ workload, artifact, stage: "compare", message });
      },
    };
  }

  #isDue(call: number, { learnt: { alone, shared } }: Ready): boolean {
    // A long call may never have run on one thread.
    const costMs = Math.min(alone, this.#engine.loaded.threads * shared);
    if (this.#turn[0] !== call || this.#allowedMs < costMs) return false;
    this.#allowedMs -= costMs;
    this.#turn = [...this.#turn.slice(1), call];
    return true;
  }

  #output(call: number): PlanTensor {
    const { plan } = this.#engine.order.answer;
    return plan.tensors[plan.calls[call]?.tensors.at(-1) as number] as PlanTensor;
  }

  /** Before the call, as it may write over what it reads. */
  #runBefore(call: number, { task, main, words }: Ready): void {
    const spare = this.#allocated(align(4 * productOf(this.#output(call).shape)));
    if (spare === null) return;
    this.#spare = spare;
    const output = task.words.length - 1;
    main(...words.map((word, i) => (i === output ? spare.start : word)), 0, task.extent);
  }

  /** Null where there is no room: then there is no audit. */
  #allocated(bytes: number): Block | null {
    try {
      return this.#arena.allocate(bytes);
    } catch {
      return null;
    }
  }

  #agree(call: number, spare: Block, output: number): boolean {
    const { dtype, shape } = this.#output(call);
    const { memory, order } = this.#engine;
    const view = (address: number): Stored =>
      viewOf(memory.buffer, dtype, address, productOf(shape)) as Stored;
    return isNear(view(spare.start), view(output), order.answer.plan.golden.tolerance);
  }

  /** Also of a run that was stopped or trapped between the two. */
  #close(): void {
    if (this.#spare !== null) this.#arena.free(this.#spare);
    this.#spare = null;
  }
}
