/**
 * Runs parts of calls of a kernel that was swapped in beside the kernel that ran before, on the
 * numbers of real inferences. Each inference pays for as much as a fixed small share of its time
 * allows, so that none is noticeably slower: one call alone takes 30 % of an inference of GPT-2.
 */
import type { CallTimes, Ready, Watch } from "../../backend/wasm/dispatch.js";
import type { WasmExecutor } from "../../backend/wasm/executor.js";
import type { Arena, Block } from "../../engine/arena.js";
import { align, productOf, viewOf } from "../../engine/tensors.js";
import type { Stored } from "../../executor/golden-tensors.js";
import { WrongKernel } from "../../executor/output-check.js";
import { now } from "../../timing/clock.js";
import type { PlanTensor } from "../../wire/model-answer.js";

/** The share of the time of inferences that audits may take. */
const SHARE = 0.02;
/**
 * The milliseconds that an audited part of a call takes at most, so that an abort is heard no later
 * than in other runs; the time that is left is for other calls.
 */
const PART_MS = 2.5;
/** The bits of entries that an audit has not computed: a NaN that no arithmetic makes. */
const UNWRITTEN = 0x7fc0dead;
/**
 * Entries that an audit looks at: where a part of the range most likely writes, and in the whole
 * output. Looking at all entries takes longer than computing them where an entry is made of few
 * others: 3.5 ms of MobileNetV2's 12 were spent on those of one call.
 */
const NEAR = 1 << 12;
const ANYWHERE = 1 << 10;

/** A call that waits for its audit, which begins at this unit of its range. */
interface Turn {
  readonly call: number;
  readonly from: number;
}

/** A part of a call's range. */
type Units = readonly [from: number, to: number];

/** Entries from `at` on, each so far from the next. */
interface SampledEntries {
  readonly at: number;
  readonly end: number;
  readonly step: number;
}

/** About `count` entries of [from, to), others in each round. */
function spread(from: number, to: number, count: number, round: number): SampledEntries {
  const step = Math.max(1, Math.ceil((to - from) / count));
  return { at: from + (round % step), end: to, step };
}

/** An audit that is under way. */
interface Look {
  /** The memory that the kernel before writes its output to. */
  readonly spare: Block;
  readonly all: SampledEntries;
  readonly near: SampledEntries;
}

/** False where an entry that was computed differs by more than `limit`. */
function agree(
  right: Stored,
  computed: Stored,
  limit: number,
  { at, end, step }: SampledEntries,
): boolean {
  const bits = new Int32Array(right.buffer, right.byteOffset, right.length);
  for (let i = at; i < end; i += step) {
    if (bits[i] === UNWRITTEN) continue;
    const [a, b] = [right[i] as number, computed[i] as number];
    if (!(Math.abs(a - b) <= limit) && !Object.is(a, b)) return false;
  }
  return true;
}

function largestOf(entries: Stored, { at, end, step }: SampledEntries): number {
  let largest = 0;
  for (let i = at; i < end; i += step) {
    const size = Math.abs(entries[i] as number);
    if (size > largest && size < Infinity) largest = size;
  }
  return largest;
}

export class Audit {
  readonly #executor: WasmExecutor;
  readonly #arena: Arena;
  /** Milliseconds that audits may take. */
  #allowedMs = 0;
  #turns: readonly Turn[] = [];
  /** Milliseconds that audits took in this inference, by call. */
  readonly #spentMs = new Map<number, number>();
  #look: Look | null = null;
  /** Audits so far. */
  #rounds = 0;

  constructor(executor: WasmExecutor, arena: Arena) {
    this.#executor = executor;
    this.#arena = arena;
  }

  clear(): void {
    this.#turns = [];
    this.#allowedMs = 0;
  }

  /** Forgets calls that the kernels before run again: there is nothing to compare. */
  forget(calls: ReadonlyMap<number, unknown>): void {
    this.#turns = this.#turns.filter(({ call }) => !calls.has(call));
  }

  /** An inference ended. The time of audits is taken off that of its calls. */
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
    this.#turns = [...this.#turns.filter((turn) => turn.call !== call), { call, from: 0 }];
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
        if (this.#look === null) return;
        const start = now();
        const agree = this.#agrees(call, this.#look, task.words.at(-1) as number);
        this.#close();
        this.#spend(call, start);
        if (agree) return;
        const message = "It disagrees with the kernel before on an inference's numbers.";
        const { artifact } = task;
        throw new WrongKernel({ workload, artifact, stage: "compare", message });
      },
    };
  }

  /**
   * Returns as many units as may be paid for, where it is the call's turn and that is at least one.
   */
  #due(call: number, { task, learnt: { alone, shared } }: Ready): Units | null {
    const [first, ...others] = this.#turns;
    if (first?.call !== call) return null;
    const { extent } = task;
    const { from } = first;
    // A long call may never have run on one thread.
    const unitMs = Math.min(alone, this.#executor.loaded.threads * shared) / extent;
    if (this.#allowedMs < unitMs) return null;
    const units = Math.max(1, Math.floor(Math.min(this.#allowedMs, PART_MS) / unitMs));
    const to = Math.min(extent, from + units);
    this.#turns = [...others, { call, from: to === extent ? 0 : to }];
    return [from, to];
  }

  #spend(call: number, start: number): void {
    const elapsedMs = now() - start;
    this.#allowedMs -= elapsedMs;
    this.#spentMs.set(call, (this.#spentMs.get(call) ?? 0) + elapsedMs);
  }

  #output(call: number): PlanTensor {
    const { plan } = this.#executor.order.answer;
    return plan.tensors[plan.calls[call]?.tensors.at(-1) as number] as PlanTensor;
  }

  /**
   * Runs the kernel before on a part of the call: before the call, which may write over what it
   * reads.
   */
  #runBefore(call: number, { task, main, words }: Ready, [from, to]: Units): void {
    const entries = productOf(this.#output(call).shape);
    const spare = this.#allocated(align(4 * entries));
    if (spare === null) return;
    const round = this.#rounds++;
    const [first, last] = [from, to].map((unit) => Math.round((entries * unit) / task.extent));
    const all = spread(0, entries, ANYWHERE, round);
    const look = { spare, all, near: spread(first as number, last as number, NEAR, round) };
    this.#look = look;
    const bits = new Int32Array(this.#executor.memory.buffer, spare.start, entries);
    for (const { at, end, step } of [look.all, look.near]) {
      for (let i = at; i < end; i += step) bits[i] = UNWRITTEN;
    }
    const output = task.words.length - 1;
    main(...words.map((word, i) => (i === output ? spare.start : word)), from, to);
  }

  /** Null where there is no room: then there is no audit. */
  #allocated(bytes: number): Block | null {
    try {
      return this.#arena.allocate(bytes);
    } catch {
      return null;
    }
  }

  #agrees(call: number, { spare, all, near }: Look, output: number): boolean {
    const { dtype, shape } = this.#output(call);
    const { memory, order } = this.#executor;
    const view = (address: number): Stored =>
      viewOf(memory.buffer, dtype, address, productOf(shape)) as Stored;
    const [right, computed] = [view(spare.start), view(output)];
    const largest = Math.max(largestOf(computed, all), largestOf(computed, near));
    const limit = order.answer.plan.golden.tolerance * largest;
    return agree(right, computed, limit, all) && agree(right, computed, limit, near);
  }

  /** Ends an audit, also that of a run that was stopped or trapped between the two kernels. */
  #close(): void {
    if (this.#look !== null) this.#arena.free(this.#look.spare);
    this.#look = null;
  }
}
