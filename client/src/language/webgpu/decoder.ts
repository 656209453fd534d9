/**
 * A language model on the GPU: one pass and one submission a token, or a block of the prompt's
 * tokens. The token, its place and the cache stay on the GPU, so that the next token is submitted
 * before the last one has been read.
 */
import type { BoundCall } from "../../backend/webgpu/binding.js";
import { stagingBuffer } from "../../backend/webgpu/buffers.js";
import type { BufferOf } from "../../backend/webgpu/memory.js";
import { Nudger } from "../../backend/webgpu/nudger.js";
import { OverlappingRuns } from "../../backend/webgpu/overlapping-runs.js";
import { LIMIT_MS, type LoadedPlan, loadWhole } from "../../backend/webgpu/plan-loader.js";
import { submissionsOf } from "../../backend/webgpu/submissions.js";
import { breathing } from "../../executor/event-loop.js";
import {
  type Executor,
  type ExecutorPorts,
  type RunResult,
  untimed,
} from "../../executor/executor.js";
import type { Stored } from "../../executor/golden-tensors.js";
import type { Loaded, LoadOrder } from "../../executor/messages.js";
import { checked } from "../../executor/output-check.js";
import { now } from "../../timing/clock.js";
import type { DecoderWire, PlanTensor } from "../../wire/model-answer.js";
import { beamSearch } from "../beam-search.js";
import {
  type DecodeOrder,
  goldenOrder,
  MOST_STEPS,
  readOrder,
  type SourceFeed,
} from "../decode-order.js";
import { Adjuster } from "./adjuster.js";
import { BeamSlots } from "./beam-slots.js";
import { TokenSampler } from "./sampler.js";

/** Runs that may be under way at once: while one is read back, the next ones compute. */
const MOST_RUNS = 3;
/** Blocks of a prompt that may be under way at once; then it is seen whether the page has stopped it. */
const MOST_BLOCKS = 2;
/** So many tokens of a prompt, and no more, take less one by one than as a block. */
const FEW = 4;
/** Fetches of fewer tokens are hastened; others are awaited while the next ones compute. */
const MANY = 4;
const TOKEN_BYTES = Int32Array.BYTES_PER_ELEMENT;
const LOGITS_AT = MOST_STEPS * TOKEN_BYTES;

/**
 * Calls of the first submission of a prompt's block: a layer and what is before it, enough to tell what
 * a block takes. On a weak GPU a block of a hundred calls takes seconds, and a browser that hears nothing
 * of its GPU for so long takes it for one that hangs.
 */
const FIRST_CALLS = 8;
/** A block that takes no longer is one submission. */
const WHOLE_MS = 300;
/** A longer block is cut into submissions that take so long. */
const SLICE_MS = 150;

/** Calls of the next submission, of `all` in a block, where `count` of them took so long. */
export function callsAtOnce(count: number, tookMs: number, all: number): number {
  const eachMs = tookMs / count;
  if (eachMs * all <= WHOLE_MS) return all;
  return Math.max(1, Math.floor(SLICE_MS / eachMs));
}

/** The buffers that a page writes and reads, and which calls are which. */
interface Places extends Pick<DecoderWire, "vocabulary" | "rows" | "step" | "head"> {
  /** The source of an encoder, and the keys and values of a text behind it; null without an encoder. */
  readonly encoder: {
    readonly source: GPUBuffer;
    readonly spare: GPUBuffer;
    readonly cache: readonly GPUBuffer[];
  } | null;
  readonly token: GPUBuffer;
  readonly position: GPUBuffer;
  readonly prompt: GPUBuffer;
  readonly logits: GPUBuffer;
  readonly chosen: GPUBuffer;
}

/** The kernels that choose a token in the place of the plan's own calls. */
interface Chooser {
  readonly sampler: TokenSampler;
  readonly adjuster: Adjuster | null;
}

/** Owns the device, the weights and the cache of one language model. It ends with its worker. */
export class GpuDecoder implements Executor {
  readonly overlaps = true;
  readonly loaded: Loaded;
  readonly stored: Promise<void>;
  readonly order: LoadOrder;
  readonly plan: LoadedPlan<BoundCall>;
  #calls: readonly BoundCall[];
  readonly #at: Places;
  readonly #buffers: readonly GPUBuffer[];
  readonly #runs: OverlappingRuns<GPUBuffer>;
  readonly #nudger: Nudger;
  /** There from the first text on that is drawn. */
  #sampler: Promise<TokenSampler> | null = null;
  /** There from the first text on whose logits are adjusted. */
  #adjuster: Promise<Adjuster> | null = null;
  /** The place that the next step decodes. */
  #place = 0;
  /** Calls of a block to a submission, as many as a weak GPU takes at once. */
  #atOnce = FIRST_CALLS;

  private constructor(
    order: LoadOrder,
    plan: LoadedPlan<BoundCall>,
    places: Places,
    staging: readonly GPUBuffer[],
  ) {
    this.order = order;
    this.plan = plan;
    this.#calls = plan.bound;
    this.#at = places;
    this.#buffers = staging;
    this.#runs = new OverlappingRuns(staging);
    this.#nudger = new Nudger(plan.open.device.queue, breathing());
    this.stored = plan.stored;
    this.loaded = { memoryBytes: plan.buffers.bytes, threads: 1, singleThreadReason: null };
  }

  /** Throws KernelZooError as `loadWhole`. */
  static async load(order: LoadOrder, ports: Pick<ExecutorPorts, "progress">): Promise<GpuDecoder> {
    return GpuDecoder.of(order, await loadWhole(order, ports));
  }

  /** Throws KernelZooError: memory, run. */
  static of(order: LoadOrder, loaded: LoadedPlan<BoundCall>): Promise<GpuDecoder> {
    const { plan } = order.answer;
    const { vocabulary, rows, step, head, encoder: reader } = plan.decoder as DecoderWire;
    const { placement, of } = loaded.buffers;
    const state = (tensor: number): GPUBuffer => {
      return of({ kind: "state", index: (plan.tensors[tensor] as PlanTensor).state as number });
    };
    const encoder = reader
      ? { source: state(reader.source), spare: state(reader.spare), cache: reader.cache.map(state) }
      : null;
    const [token, position, prompt] = placement.inputs.map(of) as [GPUBuffer, GPUBuffer, GPUBuffer];
    const [logits] = placement.outputs.map(of) as [GPUBuffer];
    const chosen = of(placement.calls[head + 1]?.at(-1) as BufferOf);
    const words = { token, position, prompt, logits, chosen };
    const places = { vocabulary, rows, step, head, ...words, encoder };
    const bytes = LOGITS_AT + logits.size;
    return loaded.open.scoped(() => {
      const { device } = loaded.open;
      const staging = Array.from({ length: MOST_RUNS }, () => stagingBuffer(device, bytes));
      return new GpuDecoder(order, loaded, places, staging);
    }, LIMIT_MS);
  }

  /**
   * The tokens that `feeds`, a `DecodeOrder`, ask for, and the last logits; null where `aborted` said
   * to stop. Runs may be asked for before the last one has ended. Throws KernelZooError: run where the
   * device was lost, timeout.
   */
  run(feeds: readonly Stored[], aborted: () => boolean): Promise<RunResult | null> {
    return this.decoded(readOrder(feeds), aborted);
  }

  /** The calls of a block and of a token; a run takes those that it finds where it submits. */
  get calls(): readonly BoundCall[] {
    return this.#calls;
  }

  /** Other programs in the place of calls from the next submission on. */
  replace(calls: ReadonlyMap<number, BoundCall>): void {
    this.#calls = this.#calls.map((call, i) => calls.get(i) ?? call);
  }

  /** Destroys what is its own beside the plan. */
  dispose(): void {
    for (const buffer of this.#buffers) buffer.destroy();
  }

  /** The next token is that behind so many. */
  goTo(place: number): void {
    const { token, position } = this.#at;
    const { queue } = this.plan.open.device;
    queue.writeBuffer(token, 0, Int32Array.of(0));
    queue.writeBuffer(position, 0, Int32Array.of(place, place + 1, 0, 0));
  }

  /** Compares the logits behind the golden prompt. Throws as the `check` of a model. */
  check(ports: Pick<ExecutorPorts, "progress">, aborted: () => boolean): Promise<boolean> {
    const run = async (feeds: readonly Stored[]): Promise<RunResult | null> => {
      const ran = await this.decoded(goldenOrder(feeds), aborted);
      return ran && { ...ran, outputs: ran.outputs.slice(1) };
    };
    return checked(this.order, run, ports);
  }

  /** The tokens that an order asks for, as `run`. */
  async decoded(order: DecodeOrder, aborted: () => boolean): Promise<RunResult | null> {
    if (order.beams !== null) return this.#likeliestText(order, order.beams.count, aborted);
    const outputs = await this.#runs.run(
      (staging) => this.#submit(order, staging, aborted),
      (staging) => this.#read(order, staging),
    );
    return outputs && { outputs, times: untimed() };
  }

  /** The tokens that `beamSearch` finds; null where the run was aborted. */
  async #likeliestText(
    order: DecodeOrder,
    count: number,
    aborted: () => boolean,
  ): Promise<RunResult | null> {
    const { open } = this.plan;
    const { logits, token, position, encoder, step, head, vocabulary } = this.#at;
    let text: Int32Array<ArrayBuffer> | null = null;
    const search = async (staging: GPUBuffer): Promise<boolean> => {
      if (!(await this.#begin(order, aborted))) return false;
      const states = encoder?.cache ?? [];
      const slots = await open.scoped(() => new BeamSlots(open.device, states, count), LIMIT_MS);
      try {
        this.#handOver((encoding) => slots.save(encoding, 0));
        text = await beamSearch(order, {
          logits: async (slot, next, place) => {
            if (aborted()) return null;
            open.device.queue.writeBuffer(token, 0, Int32Array.of(next));
            open.device.queue.writeBuffer(position, 0, Int32Array.of(place, place + 1, 0, 0));
            this.#handOver((encoding) => {
              slots.load(encoding, slot);
              this.#encode(encoding, (_pass, calls) => calls(step, head + 1));
              slots.save(encoding, slot);
              encoding.copyBufferToBuffer(logits, 0, staging, LOGITS_AT, logits.size);
            });
            const mapped = this.#nudger.during(staging.mapAsync(GPUMapMode.READ));
            await open.settled(mapped, LIMIT_MS);
            const entries = new Float32Array(staging.getMappedRange(), LOGITS_AT, vocabulary);
            const own = entries.slice();
            staging.unmap();
            return own;
          },
          copy: (from, to) => this.#handOver((encoding) => slots.copy(encoding, from, to)),
        });
      } finally {
        slots.dispose();
      }
      return text !== null;
    };
    return this.#runs.run(search, async () => {
      return { outputs: [text as Int32Array<ArrayBuffer>], times: untimed() };
    });
  }

  /** Has the encoder read a new source, and takes a prompt; false where the run was aborted. */
  async #begin(order: DecodeOrder, aborted: () => boolean): Promise<boolean> {
    await this.stored;
    const { place, prompt, source } = order;
    if (source !== null && !(await this.#encodeSource(source, aborted))) return false;
    return place === null || this.#prefill(place, prompt, aborted);
  }

  async #encodeSource({ entries, spare }: SourceFeed, aborted: () => boolean): Promise<boolean> {
    const { encoder } = this.#at;
    if (encoder === null || aborted()) return false;
    const { queue } = this.plan.open.device;
    const whole = new Uint8Array(encoder.source.size);
    whole.set(new Uint8Array(entries.buffer, entries.byteOffset, entries.byteLength));
    queue.writeBuffer(encoder.source, 0, whole);
    queue.writeBuffer(encoder.spare, 0, Int32Array.of(spare));
    return this.#submitBlock(aborted);
  }

  /** Submits all steps; false where the run was aborted. */
  async #submit(order: DecodeOrder, staging: GPUBuffer, aborted: () => boolean): Promise<boolean> {
    await this.stored;
    const { place, tokens, logits } = order;
    const chooser = await this.#chooserOf(order);
    if (aborted()) return false;
    chooser?.sampler.write(order.sampling);
    chooser?.adjuster?.write(order.sampling);
    if (place !== null) chooser?.adjuster?.begin(order.known);
    if (!(await this.#begin(order, aborted))) return false;
    for (let index = 0; index < tokens; index++) {
      if (aborted()) return false;
      this.#step(staging, chooser, logits && index === tokens - 1, index);
    }
    return true;
  }

  /** Null where the likeliest token of the plan's own is taken. */
  async #chooserOf({ sampling, adjusted }: DecodeOrder): Promise<Chooser | null> {
    if (sampling.temperature === 0 && !adjusted) return null;
    const { open } = this.plan;
    this.#sampler ??= TokenSampler.load(open, this.#at.vocabulary, this.#at);
    if (adjusted) this.#adjuster ??= Adjuster.load(open, this.#at.vocabulary, this.#at);
    const adjuster = adjusted ? await this.#adjuster : null;
    return { sampler: await this.#sampler, adjuster };
  }

  /** All tokens of a prompt but the last, without the head; false where it was aborted. */
  async #prefill(
    place: number,
    prompt: readonly number[],
    aborted: () => boolean,
  ): Promise<boolean> {
    const { token, position, prompt: at } = this.#at;
    const { queue } = this.plan.open.device;
    const end = place + prompt.length;
    queue.writeBuffer(at, place * TOKEN_BYTES, Int32Array.from(prompt));
    queue.writeBuffer(position, 0, Int32Array.of(place, end, 0, 0));
    queue.writeBuffer(token, 0, Int32Array.of(prompt[0] as number));
    this.#place = place;
    const blocks: Promise<unknown>[] = [];
    while (this.#place < end - 1) {
      if (aborted() || !(await this.#submitPart(end - 1, aborted))) return false;
      const block = this.plan.open.idle(LIMIT_MS);
      block.catch(() => undefined); // Nobody may wait for the last ones.
      blocks.push(block);
      if (blocks.length > MOST_BLOCKS) await blocks.shift();
    }
    return true;
  }

  /**
   * Submits a block of the prompt's tokens, or the few that are left before `last` one by one;
   * false where it was aborted.
   */
  async #submitPart(last: number, aborted: () => boolean): Promise<boolean> {
    const { rows, encoder } = this.#at;
    const left = last - this.#place;
    if (left > FEW && encoder === null) {
      if (!(await this.#submitBlock(aborted))) return false;
      this.#place += Math.min(rows, left);
    } else {
      this.#handOver((encoder) => {
        for (let n = 0; n < left; n++) this.#encodeToken(encoder, false);
      });
      this.#place += left;
    }
    return true;
  }

  /**
   * Submits a block, or an encoder, in a few submissions, or in many that are waited for where the GPU is weak or
   * not known yet; false where it was aborted.
   */
  async #submitBlock(aborted: () => boolean): Promise<boolean> {
    const { step } = this.#at;
    for (let from = 0; from < step; ) {
      if (aborted()) return false;
      const isWeak = this.#atOnce < step;
      const to = isWeak
        ? Math.min(step, from + this.#atOnce)
        : (submissionsOf(step).find((end) => end > from) as number);
      const start = now();
      this.#handOver((encoder) => this.#encode(encoder, (_pass, calls) => calls(from, to)));
      if (isWeak) {
        await this.plan.open.idle(LIMIT_MS);
        this.#atOnce = callsAtOnce(to - from, now() - start, step);
      }
      from = to;
    }
    return true;
  }

  #handOver(work: (encoder: GPUCommandEncoder) => void): void {
    const { device } = this.plan.open;
    const encoder = device.createCommandEncoder();
    work(encoder);
    device.queue.submit([encoder.finish()]);
  }

  /** Submits one token with its head; what it chose is copied to a place of the staging buffer. */
  #step(staging: GPUBuffer, chooser: Chooser | null, withLogits: boolean, index: number): void {
    const { token, logits } = this.#at;
    this.#handOver((encoder) => {
      this.#encodeToken(encoder, true, chooser);
      encoder.copyBufferToBuffer(token, 0, staging, index * TOKEN_BYTES, TOKEN_BYTES);
      if (withLogits) encoder.copyBufferToBuffer(logits, 0, staging, LOGITS_AT, logits.size);
    });
    this.#place += 1;
  }

  /** The last call goes on to the next place, with what the head, or a chooser in its place, chose. */
  #encodeToken(
    encoder: GPUCommandEncoder,
    withHead: boolean,
    chooser: Chooser | null = null,
  ): void {
    const { step, head } = this.#at;
    const last = this.#calls.length - 1;
    const before = chooser ? head + 1 : last;
    this.#encode(encoder, (pass, calls) => {
      calls(step, withHead ? before : head);
      chooser?.adjuster?.encode(pass);
      chooser?.sampler.encode(pass);
      chooser?.adjuster?.encodeCount(pass);
      calls(last, last + 1);
    });
  }

  #encode(
    encoder: GPUCommandEncoder,
    work: (pass: GPUComputePassEncoder, calls: (from: number, to: number) => void) => void,
  ): void {
    const pass = encoder.beginComputePass();
    work(pass, (from, to) => {
      for (const call of this.#calls.slice(from, to)) call.encode(pass);
    });
    pass.end();
  }

  async #read({ tokens, logits }: DecodeOrder, staging: GPUBuffer): Promise<readonly Stored[]> {
    const mapped = staging.mapAsync(GPUMapMode.READ);
    const hastened = tokens < MANY ? this.#nudger.during(mapped) : mapped;
    await this.plan.open.settled(hastened, LIMIT_MS);
    const bytes = staging.getMappedRange();
    const { vocabulary } = this.#at;
    const outputs: Stored[] = [
      new Int32Array(bytes, 0, tokens).slice(),
      new Float32Array(bytes, LOGITS_AT, logits ? vocabulary : 0).slice(),
    ];
    staging.unmap();
    return outputs;
  }
}
