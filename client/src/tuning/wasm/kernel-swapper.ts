/**
 * Puts kernels in the place of others between two runs of a model:
 *
 *  1. Fetch and compile; pack the weights of all calls as the kernel wants them, from copies that lie
 *     in memory, into places beside them.
 *  2. Run the model once on its golden inputs with the new kernels, in activations of their own, so that
 *     inferences that are asked for meanwhile go first. Outputs must be right.
 *  3. Let the calls run the new kernels, on all threads. Those before are kept: a kernel that traps, or
 *     disagrees with the one before on an inference's own numbers, is taken back, and the inference
 *     starts again from its inputs.
 *
 * A kernel that won in an earlier visit runs from the first inference on. The zoo's is prepared later, as
 * the one before it.
 */

import { Dispatcher, type Ready, readyOf } from "../../backend/wasm/dispatch.js";
import type { Task } from "../../backend/wasm/memory.js";
import { instantiateAll, type Linked, loadKernels, type Main } from "../../backend/wasm/program.js";
import { Arena, type Block } from "../../engine/arena.js";
import { KernelZooError, sentence } from "../../engine/error.js";
import { packTensors } from "../../engine/packing.js";
import { align, productOf, tensorBytes, viewOf } from "../../engine/tensors.js";
import { GoldenFile } from "../../executor/golden-file.js";
import type { Stored } from "../../executor/golden-tensors.js";
import { packOf } from "../../executor/kernel-parts.js";
import type { Fault } from "../../executor/messages.js";
import { WrongKernel } from "../../executor/output-check.js";
import { RunsFirst } from "../../executor/run-priority.js";
import type { Engine, RunResult } from "../../executor/wasm-executor.js";
import { now } from "../../timing/clock.js";
import { number, unpack } from "../../weights/inverse-packing.js";
import type { PlanTensor } from "../../wire/model-answer.js";
import type { ArtifactWire, KernelWire } from "../../wire/types.js";
import type { Began, Comparison, Found } from "../messages.js";
import { type Refusals, reasonOf, type SwapPorts, swapped, wrongGolden } from "../swap-steps.js";
import { Audit } from "./audit.js";

/** A copy of a weight in memory; `pack` is null where it lies plain. */
interface Copy {
  readonly weight: number;
  readonly pack: ArtifactWire | null;
  readonly block: Block;
}

/** A kernel that is ready to run, and the calls that shall run it. */
interface Prepared {
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
export interface Decoding extends Pick<Engine, "run" | "check"> {
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

export class Swapper {
  readonly #engine: Engine;
  readonly #decoding: Decoding | null;
  readonly #ports: SwapPorts;
  readonly #arena: Arena;
  #copies: readonly Copy[];
  /** Copies for kernels of the swap that is under way, which no call reads yet. */
  readonly #upcoming = new Set<Copy>();
  /** The copy that another is being made from. */
  #source: Copy | undefined;
  /** Kernels that packed copies which have been undone. */
  readonly #packs = new Map<string, ReadonlyMap<string, Main>>();
  /**
   * What runs again where a kernel is taken back, by workload: that before the first swap, with which
   * all that follow are compared. One of them may be wrong itself.
   */
  readonly #before = new Map<string, ReadonlyMap<number, Ready>>();
  readonly #audit: Audit;
  readonly #golden: GoldenFile;
  readonly #runs: RunsFirst;
  /** Scratch of all threads, each with `bytes` of it. */
  #scratch: { readonly start: number; readonly bytes: number };
  /** Calls change kernels: runs begin when they have. */
  #changing: Promise<void> = Promise.resolve();

  /** Runs are inferences unless told. */
  constructor(engine: Engine, ports: SwapPorts, decoding: Decoding | null = null) {
    const { memory, placement, order } = engine;
    const { plan } = order.answer;
    this.#engine = engine;
    this.#decoding = decoding;
    this.#ports = ports;
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
    this.#audit = new Audit(engine, this.#arena);
    this.#runs = new RunsFirst(ports.breathe);
    this.#golden = new GoldenFile(order, this.#runs.rest);
  }

  /** As the engine's, with what is found wrong taken back in the same inference. */
  run(feeds: readonly Stored[], aborted: () => boolean): Promise<RunResult | null> {
    return this.#runs.first(() => this.#run(feeds, aborted));
  }

  /** Compares the golden outputs as the engine does. */
  check(...asked: Parameters<Engine["check"]>): Promise<boolean> {
    return this.#runs.first(async () => {
      await this.#changing;
      return (this.#decoding ?? this.#engine).check(...asked);
    });
  }

  async #run(feeds: readonly Stored[], aborted: () => boolean): Promise<RunResult | null> {
    for (;;) {
      await this.#changing;
      const [sliceEndMs, startMs] = [this.#runs.restedMs, now()].map(absolute);
      try {
        const result = await (this.#decoding ?? this.#engine).run(feeds, aborted);
        if (result === null) return null;
        this.#audit.ran(result.times);
        return { ...result, began: { sliceEndMs, startMs } } as TunedResult;
      } catch (thrown) {
        const fault = thrown instanceof WrongKernel ? thrown.fault : null;
        if (fault === null || !(await this.#takeBack(fault))) throw thrown;
      }
    }
  }

  /**
   * Why each of the kernels does not run; null for those that do from now on. Throws KernelZooError
   * (network), with all as it was.
   */
  async swap(all: readonly Found[]): Promise<Refusals> {
    await this.#engine.stored;
    return this.#packing(() =>
      swapped<Prepared>(all, {
        prepared: (found) => this.#prepared(found),
        wrong: (prepared) => this.#wrong(prepared),
        adopt: (prepared) => this.#change(() => this.#adopt(prepared)),
      }),
    );
  }

  /**
   * Has kernels that won in an earlier visit audited beside the zoo's, as many as there is room for.
   * Throws KernelZooError (network).
   */
  async compare(all: readonly Comparison[]): Promise<void> {
    if (this.#decoding !== null) return;
    await this.#engine.stored;
    for (const each of all) {
      if (!this.#before.has(each.workload)) await this.#packing(() => this.#compare(each));
    }
  }

  /** Where the zoo's kernel does not run here, there is nothing to compare. */
  async #compare(comparison: Comparison): Promise<void> {
    try {
      const prepared = await this.#prepared(comparison);
      await this.#change(() => this.#setBeside(prepared, comparison.running));
    } catch (thrown) {
      reasonOf(thrown);
    }
  }

  /** Work that packs copies of weights; those are freed that no call reads after it. */
  async #packing<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } finally {
      this.#upcoming.clear();
      this.#source = undefined;
      this.#forgetUnused();
    }
  }

  /** Between two runs. A thread that does not take the kernel before leaves all as it is. */
  async takeBack(workload: string, message: string): Promise<void> {
    await this.#runs.rest();
    const changing = this.#takeBack({ workload, message }).then(
      () => undefined,
      () => undefined,
    );
    this.#changing = changing;
    await changing;
  }

  /** What a kernel leaves out must not be there, and right, from the golden inputs' last run. */
  async #clear({ start, end }: Block): Promise<void> {
    const { buffer } = this.#engine.memory;
    for (let at = start; at < end; at += CLEARED_BYTES) {
      new Uint8Array(buffer, at, Math.min(CLEARED_BYTES, end - at)).fill(0);
      await this.#runs.rest();
    }
  }

  /**
   * What is wrong with the golden outputs where `all` run; null where nothing is. Throws
   * KernelZooError (network).
   */
  async #wrong(all: readonly Prepared[]): Promise<string | null> {
    const { order, memory } = this.#engine;
    const { plan } = order.answer;
    const outputs = async ({ activations, dispatcher }: Apart): Promise<readonly Stored[]> => {
      const feeds = await this.#golden.inputs();
      if (this.#decoding !== null) return this.#decoding.golden(feeds, { activations, dispatcher });
      const view = (tensor: number) => {
        const { dtype, shape, at, weight } = plan.tensors[tensor] as PlanTensor;
        const address =
          at === undefined ? this.#copyOf(weight as number, null)?.block.start : activations + at;
        return viewOf(memory.buffer, dtype, address as number, productOf(shape)) as Stored;
      };
      for (const [i, { tensor }] of plan.inputs.entries()) view(tensor).set(feeds[i] as Stored);
      await dispatcher.run(() => false);
      return plan.outputs.map(({ tensor }) => view(tensor));
    };
    try {
      return await this.apart(
        async (apart) => wrongGolden(plan, await outputs(apart), this.#golden, this.#runs.rest),
        all,
      );
    } catch (thrown) {
      return reasonOf(thrown);
    }
  }

  /**
   * Does work on the model's calls in activations of their own, of which `all` take the places of
   * others; it gives way to runs. Throws KernelZooError (memory) where there is no room.
   */
  async apart<Result>(
    work: (apart: Apart) => Promise<Result>,
    all: readonly Prepared[] = [],
  ): Promise<Result> {
    const { order, placement, dispatcher } = this.#engine;
    const { plan } = order.answer;
    const calls = dispatcher.calls.map(
      (call, i) => all.find((each) => each.calls.has(i))?.calls.get(i) ?? call,
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
      const ports = { breathe: this.#runs.rest, clock: hastyClock };
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

  /** What a call takes on one thread, as far as it is known; else infinite. */
  #callMs(call: number): number {
    const { dispatcher, loaded } = this.#engine;
    const { alone, shared } = (dispatcher.calls[call] as Ready).learnt;
    return Math.min(alone, loaded.threads * shared);
  }

  /** Throws KernelZooError: network, artifact, validate, compile, memory. */
  async #prepared({
    kernel,
    workload,
    modules,
  }: Pick<Found, "kernel" | "workload" | "modules">): Promise<Prepared> {
    const { order, memory, placement, dispatcher } = this.#engine;
    const { plan } = order.answer;
    const linked = modules ?? (await loadKernels({ module: null }, [kernel], order.origin));
    const mains = instantiateAll(linked, memory);
    const number = plan.kernels.indexOf(workload);
    const calls = new Map<number, Ready>();
    this.#reserveScratch(kernel.scratch_bytes);
    for (const [i, call] of plan.calls.entries()) {
      if (call.kernel !== number) continue;
      const words: number[] = [];
      for (const [operand, t] of call.tensors.entries()) {
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

  #reserveScratch(wanted: number): void {
    if (wanted <= this.#scratch.bytes) return;
    const bytes = align(wanted);
    const { start } = this.#allocated(bytes * this.#engine.loaded.threads);
    this.#scratch = { start, bytes };
  }

  readonly #scratchOf = (thread: number): number =>
    this.#scratch.start + thread * this.#scratch.bytes;

  /** What ran before is forgotten where there is no room. Throws KernelZooError (memory). */
  #allocated(bytes: number): Block {
    try {
      return this.#arena.allocate(bytes);
    } catch {
      this.#before.clear();
      this.#audit.clear();
      this.#forgetUnused();
      return this.#arena.allocate(bytes);
    }
  }

  #copyOf(weight: number, pack: ArtifactWire | null): Copy | undefined {
    return this.#copies.find(
      (copy) => copy.weight === weight && copy.pack?.sha256 === pack?.sha256,
    );
  }

  /** The copy of a weight in a layout, made where there is none. Throws KernelZooError. */
  async #packed(
    weight: number,
    pack: ArtifactWire | null,
    mains: ReadonlyMap<string, Main>,
  ): Promise<Copy> {
    const known = this.#copyOf(weight, pack);
    if (known !== undefined) {
      this.#upcoming.add(known);
      return known;
    }
    if (pack === null) return this.#note({ weight, pack, block: await this.#plain(weight) });
    this.#source = this.#copyOf(weight, null);
    const own = this.#source === undefined ? await this.#plain(weight) : null;
    try {
      const { start } = own ?? (this.#source as Copy).block;
      const packed = (block: Block) => this.#pack(pack, mains, start, block.start);
      const bytes = tensorBytes(packTensors(pack).packed);
      return this.#note({ weight, pack, block: await this.#filled(bytes, packed) });
    } finally {
      if (own !== null) this.#arena.free(own);
    }
  }

  #note(copy: Copy): Copy {
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
    const bytes = this.#engine.order.answer.plan.weights[weight]?.bytes ?? 0;
    return this.#filled(bytes, async (plain) => {
      for (const copy of this.#copies) {
        if (copy.weight === weight && (await this.#undone(copy, plain))) return;
      }
      throw new KernelZooError("memory", "Its weights lie packed in a way that is not undone.");
    });
  }

  /** Fills `plain` from a packed copy; false where that is not undone. Throws KernelZooError. */
  async #undone(copy: Copy, plain: Block): Promise<boolean> {
    const { pack, block } = copy;
    // It may have been freed to make room while another was tried.
    if (pack === null || !this.#copies.includes(copy)) return false;
    this.#source = copy;
    const { memory } = this.#engine;
    const words = ({ start, end }: Block): Int32Array =>
      new Int32Array(memory.buffer, start, (end - start) / 4);
    const mains = await this.#packMains(pack);
    const origins = await this.#filled(block.end - block.start, async ({ start }) => {
      await number(words(plain), this.#runs.rest);
      await this.#pack(pack, mains, plain.start, start);
    });
    try {
      return await unpack(words(origins), words(block), words(plain), this.#runs.rest);
    } finally {
      this.#arena.free(origins);
    }
  }

  /** The pack kernel of a copy that lies in memory; fetched once, as the engine keeps none. */
  async #packMains(pack: ArtifactWire): Promise<ReadonlyMap<string, Main>> {
    const known = this.#packs.get(pack.sha256);
    if (known !== undefined) return known;
    const { order, memory } = this.#engine;
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
        await this.#runs.rest();
      }
    } finally {
      if (scratch !== null) this.#arena.free(scratch);
    }
  }

  /** Changes calls while no run is under way, and none begins. */
  async #change(change: () => Promise<void>): Promise<void> {
    await this.#runs.rest();
    const changing = change();
    this.#changing = changing.catch(() => undefined);
    await changing;
  }

  /** Throws KernelZooError (run) where a thread cannot run them. */
  async #adopt(all: readonly Prepared[]): Promise<void> {
    const modules = all.flatMap((each) => each.modules);
    const mains = new Map(all.flatMap((each) => [...each.mains]));
    await this.#tellThreads(new Map(all.flatMap(({ calls }) => [...calls])), modules, mains);
    for (const { workload, calls } of all) {
      this.#replace(workload, calls, this.#before.get(workload) ?? this.#unwatched(calls));
    }
  }

  /**
   * Has a kernel that won in an earlier visit run as if it had taken the place of this one, whose threads
   * take it over for when it is taken back. Throws KernelZooError (run) where one cannot.
   */
  async #setBeside({ workload, calls, modules, mains }: Prepared, running: string): Promise<void> {
    const now = this.#unwatched(calls);
    if ([...now.values()].some(({ task }) => task.artifact !== running)) return;
    await this.#tellThreads(new Map(), modules, mains);
    // It may never have run here: what it takes is not known but by the kernel that runs.
    const before = [...calls].map(([i, ready]) => {
      const { learnt } = now.get(i) as Ready;
      return [i, { ...ready, learnt }] as const;
    });
    this.#replace(workload, now, new Map(before));
  }

  /** Inferences are audited; what decodes is not. */
  #replace(
    workload: string,
    calls: ReadonlyMap<number, Ready>,
    before: ReadonlyMap<number, Ready>,
  ): void {
    const { dispatcher } = this.#engine;
    this.#before.set(workload, before);
    for (const [i, ready] of calls) {
      if (this.#decoding !== null) dispatcher.calls[i] = ready;
      else {
        const watch = this.#audit.watch(workload, i, ready, before.get(i) as Ready);
        dispatcher.calls[i] = { ...ready, watch };
      }
    }
  }

  /** What runs of these calls, with nothing beside it. */
  #unwatched(calls: ReadonlyMap<number, unknown>): ReadonlyMap<number, Ready> {
    const running = [...calls.keys()].map((i) => {
      const { watch: _, ...ready } = this.#engine.dispatcher.calls[i] as Ready;
      return [i, ready] as const;
    });
    return new Map(running);
  }

  async #tellThreads(
    calls: ReadonlyMap<number, Ready>,
    modules: readonly Linked[],
    mains: ReadonlyMap<string, Main>,
  ): Promise<void> {
    const tasks = new Map([...calls].map(([i, { task }]) => [i, task]));
    await this.#engine.crew?.change({ modules, tasks }, this.#scratchOf, mains);
  }

  /** False where nothing ran before, or that is forgotten. No run is under way. */
  async #takeBack({ workload, message }: Pick<Fault, "workload" | "message">): Promise<boolean> {
    const before = this.#before.get(workload);
    if (before === undefined) return false;
    this.#before.delete(workload);
    await this.#tellThreads(before, [], new Map());
    for (const [i, ready] of before) this.#engine.dispatcher.calls[i] = ready;
    this.#audit.forget(before);
    const [again] = before.values();
    this.#ports.regressed(workload, message, (again as Ready).task.artifact);
    return true;
  }

  /** Frees copies that no call reads, neither now nor once a kernel is swapped in or taken back. */
  #forgetUnused(): void {
    const { order, dispatcher } = this.#engine;
    const { plan } = order.answer;
    const kept = [...this.#before.values()].flatMap((calls) => [...calls.values()]);
    const read = new Set([...dispatcher.calls, ...kept].flatMap(({ task }) => task.words));
    const told = new Set(plan.outputs.map(({ tensor }) => plan.tensors[tensor]?.weight));
    const used = (copy: Copy): boolean =>
      read.has(copy.block.start) ||
      (copy.pack === null && told.has(copy.weight)) ||
      this.#upcoming.has(copy) ||
      copy === this.#source;
    for (const copy of this.#copies) if (!used(copy)) this.#arena.free(copy.block);
    this.#copies = this.#copies.filter(used);
  }
}

export const spareBytes = (weights: number, activations: number): number =>
  align(weights / 2) + 2 * align(activations) + (64 << 20);
