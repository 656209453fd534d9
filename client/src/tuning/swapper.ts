/**
 * Puts kernels in the place of others between two runs of a model:
 *
 *  1. Fetch and compile; pack the weights of all calls as the kernel wants them, from copies that lie
 *     in memory, into places beside them.
 *  2. Run the model once on its golden inputs with the new kernels, in activations of their own, so that
 *     inferences that are asked for meanwhile go first. Outputs must be right.
 *  3. Let the calls run the new kernels. Those before are kept: a kernel that traps, or disagrees with
 *     the one before on an inference's own numbers, is taken back in that inference.
 */
import { Arena, type Block } from "../engine/arena.js";
import { download } from "../engine/artifact.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { packTensors } from "../engine/packing.js";
import { align, tensorBytes, viewOf } from "../engine/tensors.js";
import { addressOf, type PlanTensor, productOf } from "../runtime/answer.js";
import { Dispatcher, type Ready, readyOf } from "../runtime/dispatch.js";
import { type Engine, type RunResult, WrongKernel } from "../runtime/engine.js";
import { goldenParts, type Stored, wrongOutput } from "../runtime/golden.js";
import { instantiateAll, loadKernels, type Main } from "../runtime/kernels.js";
import { packOf, type Task } from "../runtime/placement.js";
import { refuseChanged } from "../runtime/stream.js";
import type { ArtifactWire, KernelWire } from "../wire/types.js";
import { Audit } from "./audit.js";
import type { Found } from "./messages.js";
import { number, unpack } from "./unpacking.js";

/** A copy of a weight in memory; `pack` is null where it lies plain. */
interface Copy {
  readonly weight: number;
  readonly pack: ArtifactWire | null;
  readonly block: Block;
}

/** A kernel that is ready to run, and the calls that shall run it. */
interface Prepared {
  readonly found: Found;
  readonly calls: ReadonlyMap<number, Ready>;
}

export interface SwapPorts {
  /** Lets messages in. */
  readonly breathe: () => Promise<void>;
  readonly regressed: (workload: string, reason: string) => void;
}

const PACK_SLICES = 32;
/** Files of golden inputs and outputs up to this are kept in memory. */
const SMALL_BYTES = 1 << 24;

export class Swapper {
  readonly #engine: Engine;
  readonly #ports: SwapPorts;
  readonly #arena: Arena;
  #copies: readonly Copy[];
  /** What ran before, by workload. */
  readonly #before = new Map<string, ReadonlyMap<number, Ready>>();
  readonly #audit: Audit;
  /** Main functions of kernels that were swapped in, by artifact, without audits. */
  readonly #mains = new Map<string, Main>();
  #scratch: { readonly start: number; readonly bytes: number };
  #golden: ArrayBuffer | null = null;
  #running = 0;
  #idle: Promise<void> = Promise.resolve();

  constructor(engine: Engine, ports: SwapPorts) {
    const { memory, placement, order } = engine;
    const { plan } = order.answer;
    this.#engine = engine;
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
    this.#audit = new Audit(engine, this.#arena, (workload) =>
      this.#takeBack(workload, "It disagrees with the kernel before on an inference's numbers."),
    );
  }

  /** As the engine's, with what is found wrong taken back in the same inference. */
  run(feeds: readonly Stored[], aborted: () => boolean): Promise<RunResult | null> {
    return this.first(() => this.#run(feeds, aborted));
  }

  /** Everything else waits for `work`. */
  async first<T>(work: () => Promise<T>): Promise<T> {
    let idle: () => void = () => undefined;
    if (this.#running++ === 0) {
      this.#idle = new Promise((resolve) => {
        idle = resolve;
      });
    }
    try {
      return await work();
    } finally {
      if (--this.#running === 0) idle();
    }
  }

  async #run(feeds: readonly Stored[], aborted: () => boolean): Promise<RunResult | null> {
    for (;;) {
      try {
        const result = await this.#engine.run(feeds, aborted);
        if (result !== null) this.#audit.ran(result.times);
        return result;
      } catch (thrown) {
        const fault = thrown instanceof WrongKernel ? thrown.fault : null;
        if (fault === null || !this.#takeBack(fault.workload, fault.message)) throw thrown;
      }
    }
  }

  /** Why each of the kernels does not run; null for those that do from now on. */
  async swap(all: readonly Found[]): Promise<readonly (string | null)[]> {
    await this.#engine.stored;
    const refused = new Map<Found, string>();
    const prepared: Prepared[] = [];
    for (const found of all) {
      try {
        prepared.push(await this.#prepared(found));
      } catch (thrown) {
        refused.set(found, sentence(thrown));
      }
    }
    for (const [each, reason] of await this.#wrongAmong(prepared)) refused.set(each.found, reason);
    await this.#rest();
    for (const each of prepared) if (!refused.has(each.found)) this.#adopt(each);
    this.#forgetUnused();
    return all.map((found) => refused.get(found) ?? null);
  }

  readonly #rest = async (): Promise<void> => {
    await this.#ports.breathe();
    while (this.#running > 0) await this.#idle;
  };

  /** Those with which the golden outputs are wrong, and why. Together first, as most are right. */
  async #wrongAmong(all: readonly Prepared[]): Promise<ReadonlyMap<Prepared, string>> {
    const reason = all.length === 0 ? null : await this.#wrong(all);
    if (reason === null) return new Map();
    if (all.length === 1) return new Map([[all[0] as Prepared, reason]]);
    const wrong = new Map<Prepared, string>();
    for (const each of all) {
      const alone = await this.#wrong([each]);
      if (alone !== null) wrong.set(each, alone);
    }
    // Each is right alone, and all together are not.
    if (wrong.size === 0) for (const each of all) wrong.set(each, reason);
    return wrong;
  }

  /** What is wrong with the golden outputs where `all` run; null where nothing is. */
  async #wrong(all: readonly Prepared[]): Promise<string | null> {
    const { order, placement, dispatcher, memory } = this.#engine;
    const { plan } = order.answer;
    const file = await this.#goldenFile();
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
    const mains = new Map(calls.map((call) => [call.task.artifact, this.#bare(call).main]));
    const blame = (_: number, cause: unknown) =>
      new KernelZooError("run", `It trapped: ${sentence(cause)}`);
    const view = (tensor: number) => {
      const { dtype, shape, at, weight } = plan.tensors[tensor] as PlanTensor;
      const address =
        at === undefined
          ? this.#copyOf(weight as number, null)?.block.start
          : activations.start + at;
      return viewOf(memory.buffer, dtype, address as number, productOf(shape)) as Stored;
    };
    try {
      const feeds = goldenParts(file, plan.inputs, plan.golden.inputs);
      for (const [i, { tensor }] of plan.inputs.entries()) view(tensor).set(feeds[i] as Stored);
      const ports = { breathe: this.#rest };
      await new Dispatcher(tasks, mains, scratch.start, null, blame, ports).run(() => false);
      const wanted = goldenParts(file, plan.outputs, plan.golden.outputs);
      const wrong = wrongOutput(
        plan,
        plan.outputs.map(({ tensor }) => view(tensor)),
        wanted,
      );
      return wrong === undefined ? null : `The golden output ${wrong} is wrong with it.`;
    } catch (thrown) {
      return sentence(thrown);
    } finally {
      this.#arena.free(activations);
      this.#arena.free(scratch);
    }
  }

  async #goldenFile(): Promise<ArrayBuffer> {
    if (this.#golden !== null) return this.#golden;
    const { answer, origin } = this.#engine.order;
    const url = addressOf(answer.golden.url, origin);
    const bytes = await download(url, (response) => response.arrayBuffer());
    await refuseChanged(new Uint8Array(bytes), answer.plan.golden.sha256, url);
    if (bytes.byteLength <= SMALL_BYTES) this.#golden = bytes;
    return bytes;
  }

  /** Throws KernelZooError: network, artifact, validate, compile, memory. */
  async #prepared(found: Found): Promise<Prepared> {
    const { order, memory, placement, dispatcher } = this.#engine;
    const { plan } = order.answer;
    const { kernel, workload } = found;
    const linked = await loadKernels({ module: null }, [kernel], order.origin);
    const mains = instantiateAll(linked, memory);
    const number = plan.kernels.indexOf(workload);
    const calls = new Map<number, Ready>();
    this.#reserveScratch(kernel.scratch_bytes);
    this.#mains.set(kernel.sha256, mains.get(kernel.sha256) as Main);
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
    return { found, calls };
  }

  #reserveScratch(bytes: number): void {
    if (bytes > this.#scratch.bytes) {
      this.#scratch = { ...this.#allocated(bytes), bytes };
    }
  }

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
    if (known !== undefined) return known;
    const plain = this.#copyOf(weight, null)?.block ?? (await this.#plain(weight));
    if (pack === null) return this.#note({ weight, pack, block: plain });
    const copy = { weight, pack, block: this.#allocated(tensorBytes(packTensors(pack).packed)) };
    await this.#pack(pack, mains, plain.start, copy.block.start);
    if (this.#copyOf(weight, null) === undefined) this.#arena.free(plain);
    return this.#note(copy);
  }

  #note(copy: Copy): Copy {
    this.#copies = [...this.#copies, copy];
    return copy;
  }

  /** A block with the weight as the author stored it. Throws KernelZooError (memory). */
  async #plain(weight: number): Promise<Block> {
    const copies = this.#copies.filter((copy) => copy.weight === weight);
    const { memory, order } = this.#engine;
    const bytes = order.answer.plan.weights[weight]?.bytes ?? 0;
    const words = ({ start, end }: Block): Int32Array =>
      new Int32Array(memory.buffer, start, (end - start) / 4);
    const plain = this.#allocated(bytes);
    for (const { pack, block } of copies) {
      if (pack === null) continue;
      const mains = await this.#packMains(pack);
      const origins = this.#allocated(block.end - block.start);
      number(words(plain));
      await this.#pack(pack, mains, plain.start, origins.start);
      const done = await unpack(words(origins), words(block), words(plain), this.#rest);
      this.#arena.free(origins);
      if (done) return plain;
    }
    this.#arena.free(plain);
    throw new KernelZooError("memory", "Its weights lie packed in a way that is not undone.");
  }

  /** The pack kernel of a copy that lies in memory; fetched, as the engine keeps none. */
  async #packMains(pack: ArtifactWire): Promise<ReadonlyMap<string, Main>> {
    const { order, memory } = this.#engine;
    const asKernel = { ...pack, layouts: [] } as unknown as KernelWire;
    return instantiateAll(await loadKernels(order.answer, [asKernel], order.origin), memory);
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
    const step = Math.max(1, Math.ceil(extent / PACK_SLICES));
    for (let lo = 0; lo < extent; lo += step) {
      main(...words, lo, Math.min(lo + step, extent));
      await this.#rest();
    }
    if (scratch !== null) this.#arena.free(scratch);
  }

  #bare(ready: Ready): Ready {
    return { ...ready, main: this.#mains.get(ready.task.artifact) ?? ready.main };
  }

  /** Runs while no inference does. */
  #adopt({ found, calls }: Prepared): void {
    const { dispatcher } = this.#engine;
    const before = new Map(
      [...calls.keys()].map((i) => [i, this.#bare(dispatcher.calls[i] as Ready)] as const),
    );
    this.#before.set(found.workload, before);
    for (const [i, ready] of calls) {
      dispatcher.calls[i] = this.#audit.audited(found.workload, i, ready, before.get(i) as Ready);
    }
  }

  /** False where nothing ran before, or that is forgotten. */
  #takeBack(workload: string, reason: string): boolean {
    const before = this.#before.get(workload);
    if (before === undefined) return false;
    this.#before.delete(workload);
    for (const [i, ready] of before) this.#engine.dispatcher.calls[i] = ready;
    this.#ports.regressed(workload, reason);
    return true;
  }

  /** Frees copies that no call reads, neither now nor once it is taken back. */
  #forgetUnused(): void {
    const { order, dispatcher } = this.#engine;
    const { plan } = order.answer;
    const kept = [...this.#before.values()].flatMap((calls) => [...calls.values()]);
    const read = new Set([...dispatcher.calls, ...kept].flatMap(({ task }) => task.words));
    const told = new Set(plan.outputs.map(({ tensor }) => plan.tensors[tensor]?.weight));
    const used = ({ weight, pack, block }: Copy): boolean =>
      read.has(block.start) || (pack === null && told.has(weight));
    for (const copy of this.#copies) if (!used(copy)) this.#arena.free(copy.block);
    this.#copies = this.#copies.filter(used);
  }
}

export const spareBytes = (weights: number, activations: number): number =>
  align(weights / 2) + 2 * align(activations) + (64 << 20);
