/**
 * Swaps kernels of a model on WebAssembly. The weights of all calls are packed as a new kernel wants them,
 * from copies that lie in memory, into places beside them; all threads take the kernel over between two
 * runs. An inference in which a kernel traps, or disagrees with the one before, starts again from its
 * inputs.
 *
 * A kernel that won in an earlier visit runs from the first inference on. The zoo's is prepared later, as
 * the one before it.
 */
import { Dispatcher, type Ready, readyOf } from "../../backend/wasm/dispatch.js";
import type { WasmExecutor } from "../../backend/wasm/executor.js";
import type { Task } from "../../backend/wasm/memory.js";
import { instantiateAll, type Linked, loadKernels, type Main } from "../../backend/wasm/program.js";
import { Arena, type Block } from "../../engine/arena.js";
import { KernelZooError, sentence } from "../../engine/error.js";
import { packTensors } from "../../engine/packing.js";
import { align, productOf, tensorBytes, viewOf } from "../../engine/tensors.js";
import type { Executor, RunResult } from "../../executor/executor.js";
import type { Stored } from "../../executor/golden-tensors.js";
import { packOf } from "../../executor/kernel-parts.js";
import { WrongKernel } from "../../executor/output-check.js";
import { now } from "../../timing/clock.js";
import { number, unpack } from "../../weights/inverse-packing.js";
import type { PlanTensor } from "../../wire/model-answer.js";
import type { ArtifactWire, KernelWire } from "../../wire/types.js";
import { type Calls, fittingCalls, KernelSwapper, type SwapPorts } from "../kernel-swapper.js";
import type { Began, Comparison, Winner } from "../messages.js";
import { Audit } from "./audit.js";

/** A copy of a weight in memory; `pack` is null where it lies plain. */
interface PackedCopy {
  readonly weight: number;
  readonly pack: ArtifactWire | null;
  readonly block: Block;
}

/** A kernel that is ready to run, and the calls that shall run it. */
interface PreparedCalls {
  readonly workload: string;
  readonly modules: readonly Linked[];
  readonly mains: ReadonlyMap<string, Main>;
  readonly calls: ReadonlyMap<number, Ready>;
}

/** A result that also tells how the run waited, as benchmarks want to know. */
interface TunedResult extends RunResult {
  readonly began: Began;
}

/** Runs that are no inferences: they write states, so that no call of them may be computed twice. */
export interface Decoding extends Pick<Executor, "run" | "check"> {
  /** The golden outputs of what runs apart. */
  golden(feeds: readonly Stored[], apart: Apart): Promise<readonly Stored[]>;
}

/** The calls of a model in activations of their own. */
interface Apart {
  readonly activations: number;
  readonly dispatcher: Dispatcher;
}

const absolute = (ms: number): number => performance.timeOrigin + ms;

/** The least slices of the first run of a pack kernel, so that optimised code takes over within it. */
const PACK_SLICES = 32;
/** A slice of a pack kernel writes about so much, which takes a millisecond in baseline code. */
const SLICE_BYTES = 1 << 17;
/** So much is cleared in less than a millisecond. */
const CLEARED_BYTES = 1 << 21;
/** Baseline code is at most so many times slower than what the kernel before took. */
const BASELINE = 16;
/**
 * By a clock that runs so many times faster the golden run lets messages in after a millisecond, and
 * not only after 4.5 as a run of the page does.
 */
const HASTE = 4;
const hastyClock = (): number => HASTE * now();

export class WasmModelSwapper extends KernelSwapper<PreparedCalls, Ready, WasmExecutor> {
  readonly #decoding: Decoding | null;
  readonly #arena: Arena;
  #copies: readonly PackedCopy[];
  /** Copies for kernels of the swap that is under way, which no call reads yet. */
  readonly #upcoming = new Set<PackedCopy>();
  /** The copy that another is being made from. */
  #source: PackedCopy | undefined;
  /** Kernels that packed copies which have been undone. */
  readonly #packs = new Map<string, ReadonlyMap<string, Main>>();
  readonly #audit: Audit;
  /** Scratch of all threads, each with `bytes` of it. */
  #scratch: { readonly start: number; readonly bytes: number };
  /** Calls change kernels: runs begin when they have. */
  #changing: Promise<unknown> = Promise.resolve();

  /** Runs are inferences unless told. */
  constructor(executor: WasmExecutor, ports: SwapPorts, decoding: Decoding | null = null) {
    super(executor, ports);
    const { memory, placement, order } = executor;
    const { plan } = order.answer;
    this.#decoding = decoding;
    this.#copies = placement.weights.flatMap((copies, weight) =>
      copies.map(({ pack, address }) => {
        const bytes =
          pack === null
            ? (plan.weights[weight]?.bytes ?? 0)
            : tensorBytes(packTensors(pack).packed);
        return { weight, pack, block: { start: address, end: address + bytes } };
      }),
    );
    const first = Math.min(placement.totalBytes, ...this.#copies.map(({ block }) => block.start));
    const own = { start: 0, end: first };
    this.#arena = new Arena(memory, [own, ...this.#copies.map(({ block }) => block)]);
    this.#scratch = { start: placement.scratch, bytes: placement.scratchStride };
    this.#audit = new Audit(executor, this.#arena);
  }

  /** Compares the golden outputs as the executor does. */
  protected override async checked(...asked: Parameters<Executor["check"]>): Promise<boolean> {
    await this.#changing;
    return (this.#decoding ?? this.executor).check(...asked);
  }

  protected override async inferred(
    feeds: readonly Stored[],
    aborted: () => boolean,
  ): Promise<RunResult | null> {
    for (;;) {
      await this.#changing;
      const [sliceEndMs, startMs] = [this.runs.restedMs, now()].map(absolute);
      try {
        const result = await (this.#decoding ?? this.executor).run(feeds, aborted);
        if (result === null) return null;
        this.#audit.ran(result.times);
        return { ...result, began: { sliceEndMs, startMs } } as TunedResult;
      } catch (thrown) {
        const fault = thrown instanceof WrongKernel ? thrown.fault : null;
        if (fault === null) throw thrown;
        if (!(await this.takeBack(fault.workload, fault.message))) throw thrown;
      }
    }
  }

  /** Does work that packs weights, then frees the copies that no call reads. */
  protected override async enclosed<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } finally {
      this.#upcoming.clear();
      this.#source = undefined;
      this.#forgetUnused();
    }
  }

  /** Sets nothing beside kernels of a language model: decoding is not audited. */
  override async compare(all: readonly Comparison[]): Promise<void> {
    if (this.#decoding === null) await super.compare(all);
  }

  /**
   * Fills memory with zeros, so that entries that a kernel leaves out are not there, and right,
   * from the last run on the golden inputs.
   */
  async #clear({ start, end }: Block): Promise<void> {
    const { buffer } = this.executor.memory;
    for (let at = start; at < end; at += CLEARED_BYTES) {
      new Uint8Array(buffer, at, Math.min(CLEARED_BYTES, end - at)).fill(0);
      await this.runs.rest();
    }
  }

  /** Throws KernelZooError: memory, run. */
  protected override ranApart<Result>(
    all: readonly PreparedCalls[],
    feeds: readonly Stored[],
    work: (outputs: readonly Stored[]) => Promise<Result>,
  ): Promise<Result> {
    const { order, memory } = this.executor;
    const { plan } = order.answer;
    return this.apart(async (apart) => {
      if (this.#decoding !== null) return work(await this.#decoding.golden(feeds, apart));
      const { activations, dispatcher } = apart;
      const view = (tensor: number) => {
        const { dtype, shape, at, weight } = plan.tensors[tensor] as PlanTensor;
        const address =
          at === undefined ? this.#copyOf(weight as number, null)?.block.start : activations + at;
        return viewOf(memory.buffer, dtype, address as number, productOf(shape)) as Stored;
      };
      for (const [i, { tensor }] of plan.inputs.entries()) view(tensor).set(feeds[i] as Stored);
      await dispatcher.run(() => false);
      return work(plan.outputs.map(({ tensor }) => view(tensor)));
    }, all);
  }

  /**
   * Does work on the model's calls in activations of their own, of which `all` take the places of
   * others; it gives way to runs. Throws KernelZooError (memory) where there is no room.
   */
  async apart<Result>(
    work: (apart: Apart) => Promise<Result>,
    all: readonly PreparedCalls[] = [],
  ): Promise<Result> {
    const { order, placement, dispatcher } = this.executor;
    const { plan } = order.answer;
    const calls = dispatcher.calls.map(
      (call, i) => all.find(({ calls }) => calls.has(i))?.calls.get(i) ?? call,
    );
    const activations = this.#arena.allocate(plan.memory.activations);
    const scratch = this.#arena.allocate(this.#scratch.bytes);
    const moved = activations.start - placement.activations;
    const place = ({ weight }: PlanTensor, word: number): number =>
      weight === undefined ? word + moved : word;
    const tensorsOf = (i: number): readonly PlanTensor[] =>
      (plan.calls[i]?.tensors ?? []).map((t) => plan.tensors[t] as PlanTensor);
    const tasks = calls.map(({ task }, i) => ({
      ...task,
      words: tensorsOf(i).map((tensor, k) => place(tensor, task.words[k] as number)),
    }));
    const mains = new Map(calls.map(({ task, main }) => [task.artifact, main]));
    const blame = (_: number, cause: unknown) =>
      new KernelZooError("run", `It trapped: ${sentence(cause)}`);
    try {
      await this.#clear(activations);
      const ports = { breathe: this.runs.rest, clock: hastyClock };
      const proof = new Dispatcher(tasks, mains, scratch.start, null, blame, ports);
      // Calls that are too long for their parts would hold up a run that is asked for meanwhile.
      for (const [i, { learnt }] of proof.calls.entries()) {
        learnt.alone = HASTE * BASELINE * this.#callMs(i);
      }
      return await work({ activations: activations.start, dispatcher: proof });
    } finally {
      this.#arena.free(activations);
      this.#arena.free(scratch);
    }
  }

  /** Returns what a call takes on one thread, as far as it is known; else infinity. */
  #callMs(call: number): number {
    const { dispatcher, loaded } = this.executor;
    const { alone, shared } = (dispatcher.calls[call] as Ready).learnt;
    return Math.min(alone, loaded.threads * shared);
  }

  /** Throws KernelZooError: network, artifact, validate, compile, memory, manifest. */
  protected override async prepared(winner: Winner | Comparison): Promise<PreparedCalls> {
    const { kernel, workload } = winner;
    const modules = "modules" in winner ? winner.modules : undefined;
    const { order, memory, placement, dispatcher } = this.executor;
    const { plan } = order.answer;
    const linked = modules ?? (await loadKernels({ module: null }, [kernel], order.origin));
    const mains = instantiateAll(linked, memory);
    const calls = new Map<number, Ready>();
    this.#reserveScratch(kernel.scratch_bytes);
    for (const i of fittingCalls(plan, winner)) {
      const words: number[] = [];
      for (const [operand, t] of (plan.calls[i]?.tensors ?? []).entries()) {
        const { weight, at = 0 } = plan.tensors[t] as PlanTensor;
        const pack = packOf(kernel, operand);
        if (weight === undefined) words.push(placement.activations + at);
        else words.push((await this.#packed(weight, pack, mains)).block.start);
      }
      const { range_extent: extent, scratch_bytes, sha256: artifact } = kernel;
      const { task: before, learnt } = dispatcher.calls[i] as Ready;
      const { weights } = before;
      const task: Task = { artifact, extent, words, hasScratch: scratch_bytes > 0, weights };
      const ready = readyOf(task, mains, this.#scratch.start);
      calls.set(i, { ...ready, learnt: { ...learnt } });
    }
    return { workload, modules: linked, mains, calls };
  }

  #reserveScratch(needed: number): void {
    if (needed <= this.#scratch.bytes) return;
    const bytes = align(needed);
    const { start } = this.#allocated(bytes * this.executor.loaded.threads);
    this.#scratch = { start, bytes };
  }

  readonly #scratchOf = (thread: number): number =>
    this.#scratch.start + thread * this.#scratch.bytes;

  /**
   * Allocates memory; where there is no room, it forgets the kernels before and frees what only
   * they read. Throws KernelZooError (memory).
   */
  #allocated(bytes: number): Block {
    try {
      return this.#arena.allocate(bytes);
    } catch {
      this.before.clear();
      this.#audit.clear();
      this.#forgetUnused();
      return this.#arena.allocate(bytes);
    }
  }

  #copyOf(weight: number, pack: ArtifactWire | null): PackedCopy | undefined {
    return this.#copies.find(
      (copy) => copy.weight === weight && copy.pack?.sha256 === pack?.sha256,
    );
  }

  /** The copy of a weight in a layout, made where there is none. Throws KernelZooError. */
  async #packed(
    weight: number,
    pack: ArtifactWire | null,
    mains: ReadonlyMap<string, Main>,
  ): Promise<PackedCopy> {
    const known = this.#copyOf(weight, pack);
    if (known !== undefined) {
      this.#upcoming.add(known);
      return known;
    }
    if (pack === null) return this.#note({ weight, pack, block: await this.#plain(weight) });
    this.#source = this.#copyOf(weight, null);
    const own = this.#source === undefined ? await this.#plain(weight) : null;
    try {
      const { start } = own ?? (this.#source as PackedCopy).block;
      const packed = (block: Block) => this.#pack(pack, mains, start, block.start);
      const bytes = tensorBytes(packTensors(pack).packed);
      return this.#note({ weight, pack, block: await this.#filled(bytes, packed) });
    } finally {
      if (own !== null) this.#arena.free(own);
    }
  }

  #note(copy: PackedCopy): PackedCopy {
    this.#copies = [...this.#copies, copy];
    this.#upcoming.add(copy);
    return copy;
  }

  /** A block with what `fill` writes to it, which is freed where that throws. */
  async #filled(bytes: number, fill: (block: Block) => Promise<void>): Promise<Block> {
    const block = this.#allocated(bytes);
    try {
      await fill(block);
      return block;
    } catch (thrown) {
      this.#arena.free(block);
      throw thrown;
    }
  }

  /** A block with the weight as the author stored it. Throws KernelZooError. */
  #plain(weight: number): Promise<Block> {
    const bytes = this.executor.order.answer.plan.weights[weight]?.bytes ?? 0;
    return this.#filled(bytes, async (plain) => {
      for (const copy of this.#copies) {
        if (copy.weight === weight && (await this.#undone(copy, plain))) return;
      }
      throw new KernelZooError("memory", "Its weights lie packed in a way that is not undone.");
    });
  }

  /** Fills `plain` from a packed copy; false where that is not undone. Throws KernelZooError. */
  async #undone(copy: PackedCopy, plain: Block): Promise<boolean> {
    const { pack, block } = copy;
    // It may have been freed to make room while another was tried.
    if (pack === null || !this.#copies.includes(copy)) return false;
    this.#source = copy;
    const { memory } = this.executor;
    const words = ({ start, end }: Block): Int32Array =>
      new Int32Array(memory.buffer, start, (end - start) / 4);
    const mains = await this.#packMains(pack);
    const origins = await this.#filled(block.end - block.start, async ({ start }) => {
      await number(words(plain), this.runs.rest);
      await this.#pack(pack, mains, plain.start, start);
    });
    try {
      return await unpack(words(origins), words(block), words(plain), this.runs.rest);
    } finally {
      this.#arena.free(origins);
    }
  }

  /** The pack kernel of a copy that lies in memory; fetched once, as the executor keeps none. */
  async #packMains(pack: ArtifactWire): Promise<ReadonlyMap<string, Main>> {
    const known = this.#packs.get(pack.sha256);
    if (known !== undefined) return known;
    const { order, memory } = this.executor;
    const asKernel = { ...pack, layouts: [] } as unknown as KernelWire;
    const mains = instantiateAll(await loadKernels(order.answer, [asKernel], order.origin), memory);
    this.#packs.set(pack.sha256, mains);
    return mains;
  }

  async #pack(
    pack: ArtifactWire,
    mains: ReadonlyMap<string, Main>,
    from: number,
    to: number,
  ): Promise<void> {
    const main = mains.get(pack.sha256) as Main;
    const { range_extent: extent, scratch_bytes } = pack;
    const scratch = scratch_bytes > 0 ? this.#allocated(scratch_bytes) : null;
    const words = scratch === null ? [from, to] : [from, to, scratch.start];
    const slices = Math.max(PACK_SLICES, tensorBytes(packTensors(pack).packed) / SLICE_BYTES);
    const step = Math.max(1, Math.floor(extent / slices));
    try {
      for (let lo = 0; lo < extent; lo += step) {
        main(...words, lo, Math.min(lo + step, extent));
        await this.runs.rest();
      }
    } finally {
      if (scratch !== null) this.#arena.free(scratch);
    }
  }

  override async betweenRuns<Result>(change: () => Promise<Result>): Promise<Result> {
    await this.runs.rest();
    const changing = change();
    this.#changing = changing.catch(() => undefined);
    return changing;
  }

  /** Throws KernelZooError (run) where a thread cannot run them. */
  protected override async bound(all: readonly PreparedCalls[]): Promise<readonly Calls<Ready>[]> {
    const modules = all.flatMap(({ modules: own }) => own);
    const mains = new Map(all.flatMap(({ mains: own }) => [...own]));
    await this.#tellThreads(new Map(all.flatMap(({ calls }) => [...calls])), modules, mains);
    return all.map(({ calls }) => calls);
  }

  /**
   * Has the threads take the zoo's kernel over, for when the one that runs is taken back. Throws
   * KernelZooError (run) where one cannot.
   */
  protected override setBeside(prepared: PreparedCalls, running: string): Promise<void> {
    const { workload, calls, modules, mains } = prepared;
    return this.betweenRuns(async () => {
      const now = this.running(calls);
      if ([...now.values()].some(({ task }) => task.artifact !== running)) return;
      await this.#tellThreads(new Map(), modules, mains);
      // It may never have run here: what it takes is not known but by the kernel that runs.
      const before = new Map(
        [...calls].map(([i, ready]) => {
          const { learnt } = now.get(i) as Ready;
          return [i, { ...ready, learnt }] as const;
        }),
      );
      this.before.set(workload, before);
      await this.replace(workload, now, before);
    });
  }

  /** Inferences are audited, and decoding is not. No run is under way. */
  protected override async replace(
    workload: string,
    calls: Calls<Ready>,
    before: Calls<Ready> | null,
  ): Promise<void> {
    const { dispatcher } = this.executor;
    if (before === null) {
      await this.#tellThreads(calls, [], new Map());
      this.#audit.forget(calls);
    }
    for (const [i, ready] of calls) {
      if (before === null || this.#decoding !== null) dispatcher.calls[i] = ready;
      else {
        const watch = this.#audit.watch(workload, i, ready, before.get(i) as Ready);
        dispatcher.calls[i] = { ...ready, watch };
      }
    }
  }

  /** Returns the calls without what is audited beside them. */
  protected override running(calls: Calls<unknown>): Calls<Ready> {
    const running = [...calls.keys()].map((i) => {
      const { watch: _, ...ready } = this.executor.dispatcher.calls[i] as Ready;
      return [i, ready] as const;
    });
    return new Map(running);
  }

  protected override artifactOf({ task }: Ready): string {
    return task.artifact;
  }

  async #tellThreads(
    calls: ReadonlyMap<number, Ready>,
    modules: readonly Linked[],
    mains: ReadonlyMap<string, Main>,
  ): Promise<void> {
    const tasks = new Map([...calls].map(([i, { task }]) => [i, task]));
    await this.executor.crew?.change({ modules, tasks }, this.#scratchOf, mains);
  }

  /** Frees copies that no call reads, neither now nor once a kernel is swapped in or taken back. */
  #forgetUnused(): void {
    const { order, dispatcher } = this.executor;
    const { plan } = order.answer;
    const kept = [...this.before.values()].flatMap((calls) => [...calls.values()]);
    const read = new Set([...dispatcher.calls, ...kept].flatMap(({ task }) => task.words));
    const outputs = new Set(plan.outputs.map(({ tensor }) => plan.tensors[tensor]?.weight));
    const used = (copy: PackedCopy): boolean =>
      read.has(copy.block.start) ||
      (copy.pack === null && outputs.has(copy.weight)) ||
      this.#upcoming.has(copy) ||
      copy === this.#source;
    for (const copy of this.#copies) if (!used(copy)) this.#arena.free(copy.block);
    this.#copies = this.#copies.filter(used);
  }
}

export const spareBytes = (weights: number, activations: number): number =>
  align(weights / 2) + 2 * align(activations) + (64 << 20);
