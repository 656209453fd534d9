/**
 * A language model on the GPU: one pass and one submission a token, or a block of the prompt's
 * tokens. The token, its place and the cache stay on the GPU, so that the next token is submitted
 * before the last one has been read.
 */
import { viewOf } from "../engine/tensors.js";
import { stagingBuffer } from "../gpu/buffers.js";
import { Nudger } from "../gpu/nudger.js";
import type { DecoderWire } from "../runtime/answer.js";
import { breathing } from "../runtime/breathing.js";
import { checked, type EnginePorts, type RunResult } from "../runtime/engine.js";
import type { Stored } from "../runtime/golden.js";
import type { Loaded, LoadOrder } from "../runtime/messages.js";
import { LIMIT_MS, type LoadedPlan, loadOnGpu } from "../runtime/webgpu/loading.js";
import { StagingPool } from "../runtime/webgpu/staging.js";
import { type DecodeOrder, MOST_STEPS, readOrder } from "./order.js";
import { randomAt, sampled } from "./sampling.js";

/** Runs that may be under way at once: while one is read back, the next ones compute. */
const MOST_RUNS = 3;
/** So many tokens of a prompt, and no more, take less one by one than as a block. */
const FEW = 4;
/** Blocks of a prompt that may be under way at once; then it is seen whether the page has stopped it. */
const MOST_BLOCKS = 2;
/** Fetches of fewer tokens are hastened; others are awaited while the next ones compute. */
const MANY = 4;
const TOKEN_BYTES = Int32Array.BYTES_PER_ELEMENT;
const LOGITS_AT = MOST_STEPS * TOKEN_BYTES;
const GREEDY = { temperature: 0, topK: 0, topP: 1, seed: 0 } as const;

/** The buffers that a page writes and reads, and which calls are which. */
interface Places extends Pick<DecoderWire, "vocabulary" | "rows" | "step" | "head"> {
  readonly token: GPUBuffer;
  readonly position: GPUBuffer;
  readonly prompt: GPUBuffer;
  readonly logits: GPUBuffer;
}

/** Owns the device, the weights and the cache of one language model. It ends with its worker. */
export class Decoder {
  readonly loaded: Loaded;
  readonly stored: Promise<void>;
  readonly #order: LoadOrder;
  readonly #plan: LoadedPlan;
  readonly #at: Places;
  readonly #staging: StagingPool;
  readonly #nudger: Nudger;
  #submitted: Promise<unknown> = Promise.resolve();
  /** The place that the next step decodes. */
  #place = 0;

  private constructor(
    order: LoadOrder,
    plan: LoadedPlan,
    places: Places,
    staging: readonly GPUBuffer[],
  ) {
    this.#order = order;
    this.#plan = plan;
    this.#at = places;
    this.#staging = new StagingPool(staging);
    this.#nudger = new Nudger(plan.open.device.queue, breathing());
    this.stored = plan.stored;
    this.loaded = { memoryBytes: plan.buffers.bytes, threads: 1, singleThreadReason: null };
  }

  /** Throws KernelZooError as `loadOnGpu`. */
  static async load(order: LoadOrder, ports: Pick<EnginePorts, "progress">): Promise<Decoder> {
    const loaded = await loadOnGpu(order, ports);
    const { vocabulary, rows, step, head } = order.answer.plan.decoder as DecoderWire;
    const { placement, of } = loaded.buffers;
    const [token, position, prompt] = placement.inputs.map(of) as [GPUBuffer, GPUBuffer, GPUBuffer];
    const [logits] = placement.outputs.map(of) as [GPUBuffer];
    const places = { vocabulary, rows, step, head, token, position, prompt, logits };
    const bytes = LOGITS_AT + logits.size;
    return loaded.open.scoped(() => {
      const { device } = loaded.open;
      const staging = Array.from({ length: MOST_RUNS }, () => stagingBuffer(device, bytes));
      return new Decoder(order, loaded, places, staging);
    }, LIMIT_MS);
  }

  /**
   * The tokens that `feeds`, a `DecodeOrder`, ask for, and the last logits; null where `aborted` said
   * to stop. Runs may be asked for before the last one has ended. Throws KernelZooError: run where the
   * device was lost, timeout.
   */
  run(feeds: readonly Stored[], aborted: () => boolean): Promise<RunResult | null> {
    return this.#ran(readOrder(feeds), aborted);
  }

  /** Compares the logits behind the golden prompt. Throws as the `check` of a model. */
  check(ports: Pick<EnginePorts, "progress">, aborted: () => boolean): Promise<boolean> {
    const run = async ([, position, prompt]: readonly Stored[]): Promise<RunResult | null> => {
      const given = [...(prompt as Stored)].slice(0, position?.[1]);
      const order = { place: 0, prompt: given, tokens: 1, sampling: GREEDY, logits: true };
      const ran = await this.#ran(order, aborted);
      return ran && { ...ran, outputs: ran.outputs.slice(1) };
    };
    return checked(this.#order, run, ports);
  }

  async #ran(order: DecodeOrder, aborted: () => boolean): Promise<RunResult | null> {
    const staging = await this.#staging.take();
    try {
      const submitted = this.#submitted.then(() => this.#submit(order, staging, aborted));
      this.#submitted = submitted.catch(() => undefined);
      const chosen = await submitted;
      if (chosen === null) return null;
      const outputs = await this.#read(order, staging, chosen);
      return { outputs, times: new Float64Array(0) };
    } finally {
      this.#staging.give(staging);
    }
  }

  /**
   * Submits all steps; answers the tokens that were chosen here, which are none where the GPU chooses
   * them, and null where the run was aborted.
   */
  async #submit(
    { place, prompt, tokens, sampling, logits }: DecodeOrder,
    staging: GPUBuffer,
    aborted: () => boolean,
  ): Promise<readonly number[] | null> {
    await this.stored;
    if (aborted()) return null;
    if (place !== null && !(await this.#prefill(place, prompt, aborted))) return null;
    const chosen: number[] = [];
    for (let step = 0; step < tokens; step++) {
      if (aborted()) return null;
      const last = step === tokens - 1;
      const here = sampling.temperature > 0;
      this.#step(staging, here || (logits && last), step);
      if (!here) continue;
      const found = await this.#mapped(staging, 1, (bytes) => this.#logits(bytes).slice());
      const token = sampled(found, sampling, randomAt(sampling.seed, this.#place));
      this.#plan.open.device.queue.writeBuffer(this.#at.token, 0, Int32Array.of(token));
      chosen.push(token);
    }
    return chosen;
  }

  /** All tokens of a prompt but the last, without the head; false where it was aborted. */
  async #prefill(
    place: number,
    prompt: readonly number[],
    aborted: () => boolean,
  ): Promise<boolean> {
    const { token, position, prompt: at } = this.#at;
    const { queue } = this.#plan.open.device;
    const end = place + prompt.length;
    queue.writeBuffer(at, place * TOKEN_BYTES, Int32Array.from(prompt));
    queue.writeBuffer(position, 0, Int32Array.of(place, end, 0, 0));
    queue.writeBuffer(token, 0, Int32Array.of(prompt[0] as number));
    this.#place = place;
    const blocks: Promise<unknown>[] = [];
    while (this.#place < end - 1) {
      if (aborted()) return false;
      this.#submitPart(end - 1);
      blocks.push(this.#plan.open.idle(LIMIT_MS));
      if (blocks.length > MOST_BLOCKS) await blocks.shift();
    }
    for (const block of blocks) block.catch(() => undefined);
    return true;
  }

  /** A block of the prompt's tokens, or the few that are left before `last` one by one. */
  #submitPart(last: number): void {
    const { rows, step } = this.#at;
    const { device } = this.#plan.open;
    const encoder = device.createCommandEncoder();
    const left = last - this.#place;
    if (left > FEW) this.#encode(encoder, 0, step);
    else for (let n = 0; n < left; n++) this.#encodeToken(encoder, false);
    this.#place += left > FEW ? Math.min(rows, left) : left;
    device.queue.submit([encoder.finish()]);
  }

  /** One token with its head; what it chose is copied to a place of the staging buffer. */
  #step(staging: GPUBuffer, withLogits: boolean, index: number): void {
    const { token, logits } = this.#at;
    const { device } = this.#plan.open;
    const encoder = device.createCommandEncoder();
    this.#encodeToken(encoder, true);
    encoder.copyBufferToBuffer(token, 0, staging, index * TOKEN_BYTES, TOKEN_BYTES);
    if (withLogits) encoder.copyBufferToBuffer(logits, 0, staging, LOGITS_AT, logits.size);
    device.queue.submit([encoder.finish()]);
    this.#place += 1;
  }

  #encodeToken(encoder: GPUCommandEncoder, withHead: boolean): void {
    const { step, head } = this.#at;
    const { length } = this.#plan.bound;
    if (withHead) this.#encode(encoder, step, length);
    else this.#encode(encoder, step, head, length - 1);
  }

  /** One pass with the calls from `from` to before `to`, and `then`. */
  #encode(encoder: GPUCommandEncoder, from: number, to: number, then?: number): void {
    const { bound } = this.#plan;
    const pass = encoder.beginComputePass();
    for (let i = from; i < to; i++) bound[i]?.encode(pass);
    if (then !== undefined) bound[then]?.encode(pass);
    pass.end();
  }

  async #read(
    { tokens, logits }: DecodeOrder,
    staging: GPUBuffer,
    chosen: readonly number[],
  ): Promise<readonly Stored[]> {
    const read = (bytes: ArrayBuffer): Stored[] => [
      new Int32Array(bytes, 0, tokens).slice(),
      logits ? this.#logits(bytes).slice() : new Float32Array(0),
    ];
    const outputs = await this.#mapped(staging, tokens, read);
    return chosen.length > 0 ? [Int32Array.from(chosen), ...outputs.slice(1)] : outputs;
  }

  async #mapped<T>(
    staging: GPUBuffer,
    tokens: number,
    read: (bytes: ArrayBuffer) => T,
  ): Promise<T> {
    const mapped = staging.mapAsync(GPUMapMode.READ);
    const hastened = tokens < MANY ? this.#nudger.during(mapped) : mapped;
    await this.#plan.open.settled(hastened, LIMIT_MS);
    const value = read(staging.getMappedRange());
    staging.unmap();
    return value;
  }

  #logits(bytes: ArrayBuffer): Float32Array<ArrayBuffer> {
    return viewOf(bytes, "f32", LOGITS_AT, this.#at.vocabulary) as Float32Array<ArrayBuffer>;
  }
}
