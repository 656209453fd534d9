/**
 * Threads that help with the calls of a model. The runtime's worker takes chunks like any of them,
 * by the tickets of `threads/chunks.ts`. They stay awake from the first call of a run to its last, and
 * wait for the next run for a while: one that has gone back to its messages comes late. A ticket's
 * kernel is a part of a call: see `partOf`.
 */
import { KernelZooError, sentence } from "../../engine/error.js";
import type { Remote } from "../../rpc.js";
import {
  awaitChunks,
  awaitRun,
  type Chunking,
  chunking,
  controlView,
  currentKernel,
  currentRun,
  fail,
  failed,
  finishChunk,
  openRun,
  takeChunk,
} from "../../threads/chunks.js";
import { type Clock, now } from "../../timing/clock.js";
import { MOST_PARTS, PART_BITS, rangeOfPart } from "./call-parts.js";
import type { Task } from "./memory.js";
import { instantiateAll, type Linked, type Main } from "./program.js";

/** Tells a thread of the crew that it joins; it is sent once. */
export interface CrewStart {
  readonly memory: WebAssembly.Memory;
  readonly control: number;
  readonly modules: readonly Linked[];
  readonly tasks: readonly Task[];
  /** Threads that take chunks, the runtime's worker among them. */
  readonly threads: number;
  /** The number of this thread among them; the runtime's worker is number 0. */
  readonly thread: number;
  /** Address of this thread's own scratch. */
  readonly scratch: number;
}

/** Calls that run other kernels from the next run on. */
export interface CrewChange {
  readonly modules: readonly Linked[];
  readonly tasks: ReadonlyMap<number, Task>;
  /** Address of this thread's own scratch. */
  readonly scratch: number;
}

export type ToCrew =
  | { readonly type: "crew"; readonly start: CrewStart }
  | { readonly type: "up" }
  | { readonly type: "change"; readonly change: CrewChange };
export type FromCrew = { readonly type: "ready" };

/** The part of a worker's interface that a crew uses. */
export type Hand = Remote<ToCrew, FromCrew>;

/** No run: threads wait for one a while, and then go back to their messages. */
const IDLE = -1;
/** No call yet or no call of theirs: threads wait for the next. */
const AWAKE = -2;
/** There is a message for all threads: they go back to their messages at once. */
const LEAVING = -3;
/** Calls that fit a number beside two of PART_BITS. */
const MOST_TASKS = 2 ** (31 - 2 * PART_BITS);
/** A thread looks for the next call this often before it sleeps: some 100 microseconds. */
const SPINS = 20_000;
/**
 * A thread waits this long for the next run before it goes back to its messages. A worker that is
 * ended while it waits lives on until then.
 */
const LINGER_MS = 1000;
/** A kernel that takes longer is taken for one that hangs. */
const LIMIT_MS = 30_000;

/** Part `index` of `count` equal ones of a call, as one number. */
export const partOf = (task: number, index: number, count: number): number =>
  (((task << PART_BITS) | index) << PART_BITS) | count;

interface Chunks extends Chunking {
  readonly task: Task;
  readonly lo: number;
}

/** Runs chunks of whatever part of a call is open, as one thread. */
class Member {
  readonly control: Int32Array;
  readonly #mains: Map<string, Main>;
  readonly #tasks: Task[];
  readonly #threads: number;
  readonly #thread: number;
  #scratch: number;
  #known = IDLE;
  #chunks: Chunks | null = null;

  constructor(start: Omit<CrewStart, "modules">, mains: ReadonlyMap<string, Main>) {
    this.#mains = new Map(mains);
    this.#tasks = [...start.tasks];
    this.#threads = start.threads;
    this.#thread = start.thread;
    this.#scratch = start.scratch;
    this.control = controlView(start.memory, start.control);
  }

  tasks(indices: readonly number[]): ReadonlyMap<number, Task> {
    return new Map(indices.map((index) => [index, this.#tasks[index] as Task]));
  }

  change({ tasks, scratch }: Omit<CrewChange, "modules">, mains: ReadonlyMap<string, Main>): void {
    for (const [artifact, main] of mains) this.#mains.set(artifact, main);
    for (const [index, task] of tasks) this.#tasks[index] = task;
    this.#scratch = scratch;
    this.#known = IDLE;
  }

  /** The chunks of a part, by its number; null where there is no call. */
  chunksOf(part: number): Chunks | null {
    if (part === this.#known) return this.#chunks;
    const threads = this.#threads;
    const task = this.#tasks[part >> (2 * PART_BITS)];
    this.#known = part;
    this.#chunks = null;
    if (part < 0 || task === undefined) return null;
    const index = (part >> PART_BITS) & MOST_PARTS;
    const [lo, hi] = rangeOfPart(task.extent, index, part & MOST_PARTS, threads);
    this.#chunks = { task, lo, ...chunking(hi - lo, threads) };
    return this.#chunks;
  }

  /** Runs chunks until the open run has none left. */
  work(): void {
    const countOf = (part: number): number => this.chunksOf(part)?.count ?? 0;
    for (;;) {
      const taken = takeChunk(this.control, countOf, this.#thread, this.#threads);
      const chunks = taken === undefined ? null : this.chunksOf(taken.kernel);
      if (taken === undefined || chunks === null) return;
      this.#run(chunks, taken.chunk);
    }
  }

  #run({ task, lo, units, extent, count }: Chunks, chunk: number): void {
    try {
      const from = lo + chunk * units;
      const to = lo + Math.min((chunk + 1) * units, extent);
      const scratch = task.hasScratch ? [this.#scratch] : [];
      this.#mains.get(task.artifact)?.(...task.words, ...scratch, from, to);
    } catch {
      fail(this.control);
    }
    finishChunk(this.control, count);
  }
}

/** The crew as the runtime's worker sees it. */
export class Crew {
  readonly threads: number;
  readonly #hands: readonly Hand[];
  readonly #member: Member;
  readonly #clock: Clock;
  /** Until this time of the clock all threads surely wait for a run and need no message to wake. */
  #waitingUntil = -Infinity;

  private constructor(hands: readonly Hand[], member: Member, clock: Clock) {
    this.#hands = hands;
    this.#member = member;
    this.#clock = clock;
    this.threads = hands.length + 1;
  }

  /**
   * Resolves when every thread has answered. `scratchOf` is the scratch of each, the caller's
   * first. Throws KernelZooError (run) when one does not start.
   */
  static async start(
    start: Omit<CrewStart, "scratch" | "thread">,
    scratchOf: (thread: number) => number,
    mains: ReadonlyMap<string, Main>,
    spawn: () => Hand,
    clock = now,
  ): Promise<Crew> {
    if (start.tasks.length >= MOST_TASKS) throw new KernelZooError("run", "it has too many calls");
    const member = new Member({ ...start, thread: 0, scratch: scratchOf(0) }, mains);
    member.control.fill(0);
    openRun(member.control, IDLE);
    const hands: Hand[] = [];
    try {
      for (let i = 1; i < start.threads; i++) hands.push(spawn());
      await Promise.all(
        hands.map((hand, i) =>
          answered(hand, {
            type: "crew",
            start: { ...start, thread: i + 1, scratch: scratchOf(i + 1) },
          }),
        ),
      );
    } catch (cause) {
      for (const hand of hands) hand.terminate();
      throw new KernelZooError("run", `The threads do not start: ${sentence(cause)}`, cause);
    }
    return new Crew(hands, member, clock);
  }

  /** Wakes the threads for a run of the model. */
  up(): void {
    openRun(this.#member.control, AWAKE);
    if (this.#clock() < this.#waitingUntil) return;
    for (const hand of this.#hands) hand.postMessage({ type: "up" });
  }

  /**
   * Has calls run other kernels, of `modules` and `mains` where they are new. Resolves when every
   * thread knows; nothing may run meanwhile. Where a thread cannot load them, this rejects, and all
   * is as it was.
   */
  async change(
    change: Omit<CrewChange, "scratch">,
    scratchOf: (thread: number) => number,
    mains: ReadonlyMap<string, Main>,
  ): Promise<void> {
    const before = this.#member.tasks([...change.tasks.keys()]);
    openRun(this.#member.control, LEAVING);
    this.#waitingUntil = -Infinity;
    try {
      await this.#tell(change, scratchOf);
    } catch (thrown) {
      await this.#tell({ modules: [], tasks: before }, scratchOf).catch(() => undefined);
      throw thrown;
    }
    this.#member.change({ ...change, scratch: scratchOf(0) }, mains);
  }

  async #tell(
    change: Omit<CrewChange, "scratch">,
    scratchOf: (thread: number) => number,
  ): Promise<void> {
    const answers = this.#hands.map((hand, i) =>
      answered(hand, { type: "change", change: { ...change, scratch: scratchOf(i + 1) } }),
    );
    await Promise.allSettled(answers);
    await Promise.all(answers);
  }

  /** Ends a run: threads wait a while for the next one, and then go back to their messages. */
  down(): void {
    openRun(this.#member.control, IDLE);
    this.#waitingUntil = this.#clock() + LINGER_MS / 2;
  }

  /** Runs one part of a call on all threads. Throws KernelZooError: run, timeout. */
  run(task: number, index: number, count: number): void {
    const { control } = this.#member;
    const part = partOf(task, index, count);
    const chunks = this.#member.chunksOf(part)?.count ?? 0;
    if (chunks === 0) return;
    openRun(control, part, this.threads);
    this.#member.work();
    if (!awaitChunks(control, chunks, LIMIT_MS)) {
      throw new KernelZooError("timeout", "it took more than 30 s");
    }
    if (failed(control)) throw new KernelZooError("run", "in a thread");
  }
}

function answered(hand: Hand, message: ToCrew): Promise<void> {
  return new Promise((resolve, reject) => {
    hand.onmessage = () => resolve();
    hand.onerror = ({ message }) => reject(new Error(message || "a worker is not loaded"));
    hand.postMessage(message);
  });
}

/** Handles the messages of the crew in a helping thread. */
export interface Helping {
  up(): void;
  change(change: CrewChange): void;
}

export function crewMember(start: CrewStart): Helping {
  const mains = instantiateAll(start.modules, start.memory);
  const member = new Member(start, mains);
  const { control } = member;
  return {
    up() {
      for (let waits = true; waits; ) {
        const seen = currentRun(control);
        member.work();
        const kernel = currentKernel(control);
        if (kernel === LEAVING) return;
        const running = kernel !== IDLE;
        // The next call comes at once, mostly: waking a thread takes as long as a short call.
        for (let i = 0; i < SPINS && currentRun(control) === seen; i++);
        waits = awaitRun(control, seen, running ? LIMIT_MS : LINGER_MS) || running;
      }
    },
    change(change) {
      member.change(change, instantiateAll(change.modules, start.memory));
    },
  };
}
