/**
 * Runs calls of a kernel that was swapped in beside the kernel that ran before, on the numbers of real
 * inferences: a few in time, so that it costs a fixed small share. Where they disagree, the output is
 * that of the kernel before.
 */
import type { Arena, Block } from "../engine/arena.js";
import { align, viewOf } from "../engine/tensors.js";
import { maxDifference } from "../engine/verification.js";
import { type PlanTensor, productOf } from "../runtime/answer.js";
import type { CallTimes, Ready } from "../runtime/dispatch.js";
import type { Engine } from "../runtime/engine.js";
import type { Stored } from "../runtime/golden.js";

/** The share of the time of inferences. */
const SHARE = 0.02;

interface Under {
  readonly call: number;
  readonly spare: Block;
}

export class Audit {
  readonly #engine: Engine;
  readonly #arena: Arena;
  readonly #disagree: (workload: string) => void;
  /** Milliseconds that audits may take. */
  #allowedMs = 0;
  /** Calls that wait for their audit, in turn. */
  #turn: number[] = [];
  #under: Under | null = null;

  constructor(engine: Engine, arena: Arena, disagree: (workload: string) => void) {
    this.#engine = engine;
    this.#arena = arena;
    this.#disagree = disagree;
  }

  clear(): void {
    this.#turn = [];
  }

  /** An inference ended. */
  ran(times: CallTimes): void {
    const last = times.length - 3;
    this.#allowedMs += SHARE * ((times[last] ?? 0) + (times[last + 1] ?? 0));
  }

  /** `ready` with an audit now and then. */
  audited(workload: string, call: number, ready: Ready, before: Ready): Ready {
    const { extent } = ready.task;
    this.#turn = [...this.#turn.filter((each) => each !== call), call];
    const main = (...words: readonly number[]): void => {
      const [lo, hi] = words.slice(-2) as [number, number];
      if (lo === 0 && this.#isDue(call, before)) this.#runBefore(call, before);
      ready.main(...words);
      if (hi === extent && this.#under?.call === call) this.#compare(workload, ready);
    };
    return { ...ready, main };
  }

  #isDue(call: number, { learnt }: Ready): boolean {
    this.#close();
    if (this.#turn[0] !== call || this.#allowedMs < learnt.alone) return false;
    this.#allowedMs -= learnt.alone;
    this.#turn = [...this.#turn.slice(1), call];
    return true;
  }

  #output(call: number): PlanTensor {
    const { plan } = this.#engine.order.answer;
    return plan.tensors[plan.calls[call]?.tensors.at(-1) as number] as PlanTensor;
  }

  /** Before the call, as it may write over what it reads. */
  #runBefore(call: number, { task, main, words }: Ready): void {
    const bytes = align(4 * productOf(this.#output(call).shape));
    const spare = this.#arena.allocate(bytes);
    this.#under = { call, spare };
    const output = task.words.length - 1;
    main(...words.map((word, i) => (i === output ? spare.start : word)), 0, task.extent);
  }

  #compare(workload: string, { task }: Ready): void {
    const { call, spare } = this.#under as Under;
    const { dtype, shape } = this.#output(call);
    const { buffer } = this.#engine.memory;
    const view = (address: number): Stored =>
      viewOf(buffer, dtype, address, productOf(shape)) as Stored;
    const [right, found] = [view(spare.start), view(task.words.at(-1) as number)];
    let largest = 0;
    for (const entry of right) largest = Math.max(largest, Math.abs(entry));
    const { tolerance } = this.#engine.order.answer.plan.golden;
    if (!(maxDifference(right, found) <= tolerance * largest)) {
      found.set(right);
      this.#disagree(workload);
    }
    this.#close();
  }

  #close(): void {
    if (this.#under !== null) this.#arena.free(this.#under.spare);
    this.#under = null;
  }
}
