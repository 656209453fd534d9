/**
 * Runs parts of calls of a kernel that was swapped in beside the kernel that ran before, on the numbers
 * of real inferences. Each inference pays for as much as a fixed small share of its time allows, so
 * that none is noticeably slower: of GPT-2 one call alone takes 30 %.
 */
import type { Arena, Block } from "../engine/arena.js";
import { align, viewOf } from "../engine/tensors.js";
import { maxDifference } from "../engine/verification.js";
import { type PlanTensor, productOf } from "../runtime/answer.js";
import type { CallTimes, Ready, Watch } from "../runtime/dispatch.js";
import { type Engine, WrongKernel } from "../runtime/engine.js";
import type { Stored } from "../runtime/golden.js";
import { now } from "../timing/clock.js";

/** The share of the time of inferences. */
const SHARE = 0.02;
/** In entries that an audit has not computed: a NaN that no arithmetic makes. */
const UNWRITTEN = 0x7fc0dead;

/** A call that waits for its audit, which begins at this unit of its range. */
interface Turn {
  readonly call: number;
  readonly from: number;
}

/** A part of a call's range. */
type Units = readonly [from: number, to: number];

/** Whether what was computed of `right` is near; what it has not is taken over from `found`. */
function agree(right: Stored, found: Stored, tolerance: number): boolean {
  const bits = new Int32Array(right.buffer, right.byteOffset, right.length);
  let largest = 0;
  for (let i = 0; i < found.length; i++) {
    const size = Math.abs(found[i] as number);
    if (size > largest && size < Infinity) largest = size;
    if (bits[i] === UNWRITTEN) right[i] = found[i] as number;
  }
  return maxDifference(right, found) <= tolerance * largest;
}

export class Audit {
  readonly #engine: Engine;
  readonly #arena: Arena;
  /** Milliseconds that audits may take. */
  #allowedMs = 0;
  #turns: readonly Turn[] = [];
  /** Those of this inference, by call. */
  readonly #spentMs = new Map<number, number>();
  /** Where the output of the kernel before is, during an audit. */
  #spare: Block | null = null;

  constructor(engine: Engine, arena: Arena) {
    this.#engine = engine;
    this.#arena = arena;
  }

  clear(): void {
    this.#turns = [];
    this.#allowedMs = 0;
  }

  /** An inference ended. What audits took is no time of its calls. */
  ran(times: CallTimes): void {
    for (const [call, ms] of this.#spentMs) {
      times[3 * call + 1] = (times[3 * call + 1] as number) - ms;
    }
    this.#spentMs.clear();
    if (this.#turns.length === 0) return;
    const last = times.length - 3;
    this.#allowedMs += SHARE * ((times[last] ?? 0) + (times[last + 1] ?? 0));
  }

  /** Audits parts of a call now and then. It throws WrongKernel (compare) where the kernels disagree. */
  watch(workload: string, call: number, { task }: Ready, before: Ready): Watch {
    this.#turns = [...this.#turns.filter((each) => each.call !== call), { call, from: 0 }];
    return {
      before: () => {
        this.#close();
        this.#spentMs.delete(call);
        const units = this.#due(call, before);
        if (units === null) return;
        const start = now();
        this.#runBefore(call, before, units);
        this.#spend(call, start);
      },
      after: () => {
        if (this.#spare === null) return;
        const start = now();
        const agree = this.#agree(call, this.#spare, task.words.at(-1) as number);
        this.#close();
        this.#spend(call, start);
        if (agree) return;
        const message = "It disagrees with the kernel before on an inference's numbers.";
        const { artifact } = task;
        throw new WrongKernel({ workload, artifact, stage: "compare", message });
      },
    };
  }

  /** As many units as may be paid for, where it is the call's turn and that is one at least. */
  #due(call: number, { task, learnt: { alone, shared } }: Ready): Units | null {
    const [first, ...others] = this.#turns;
    if (first?.call !== call) return null;
    const { extent } = task;
    const { from } = first;
    // A long call may never have run on one thread.
    const unitMs = Math.min(alone, this.#engine.loaded.threads * shared) / extent;
    const to = Math.min(extent, from + Math.floor(this.#allowedMs / unitMs));
    if (to <= from) return null;
    this.#allowedMs -= (to - from) * unitMs;
    this.#turns = [...others, { call, from: to === extent ? 0 : to }];
    return [from, to];
  }

  #spend(call: number, start: number): void {
    this.#spentMs.set(call, (this.#spentMs.get(call) ?? 0) + now() - start);
  }

  #output(call: number): PlanTensor {
    const { plan } = this.#engine.order.answer;
    return plan.tensors[plan.calls[call]?.tensors.at(-1) as number] as PlanTensor;
  }

  /** Before the call, as it may write over what it reads. */
  #runBefore(call: number, { task, main, words }: Ready, units: Units): void {
    const entries = productOf(this.#output(call).shape);
    const spare = this.#allocated(align(4 * entries));
    if (spare === null) return;
    this.#spare = spare;
    new Int32Array(this.#engine.memory.buffer, spare.start, entries).fill(UNWRITTEN);
    const output = task.words.length - 1;
    main(...words.map((word, i) => (i === output ? spare.start : word)), ...units);
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
    return agree(view(spare.start), view(output), order.answer.plan.golden.tolerance);
  }

  /** Also of a run that was stopped or trapped between the two. */
  #close(): void {
    if (this.#spare !== null) this.#arena.free(this.#spare);
    this.#spare = null;
  }
}
