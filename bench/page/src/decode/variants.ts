/**
 * Our decoder without the SDK around it, so that what makes it fast can be left out: what is reused
 * from token to token, what is awaited, and how much is submitted at once. WeInfer's Tables 5 and 6
 * ask the same of WebLLM.
 */
import type { BoundProgram, Sliced } from "../../../../client/src/backend/webgpu/binding.js";
import { stagingBuffer } from "../../../../client/src/backend/webgpu/buffers.js";
import { type LoadedPlan, loadWhole } from "../../../../client/src/backend/webgpu/plan-loader.js";
import { loadProgram, type Program } from "../../../../client/src/backend/webgpu/program.js";
import { now } from "../../../../client/src/timing/clock.js";
import type {
  DecoderWire,
  ModelAnswer,
  PlanWire,
} from "../../../../client/src/wire/model-answer.js";
import type { ServedKernel } from "../../../../client/src/wire/types.js";
import { profiled } from "./profile.js";
import type { Profile, Variant } from "./request.js";

const TOKEN_BYTES = Int32Array.BYTES_PER_ELEMENT;

interface Flight {
  readonly staging: GPUBuffer;
  readonly mapped: Promise<void>;
  readonly made: readonly BoundProgram[];
}

export class BareDecoder {
  /** Calls that a token takes. */
  readonly calls: number;
  readonly #loaded: LoadedPlan<Sliced>;
  /** The first call of a token. */
  readonly #step: number;
  readonly #vocabulary: number;
  /** The workload of each call of a token. */
  readonly #workloads: readonly string[];
  readonly #kept: readonly Sliced[];
  /** Tokens of a prompt's block, its calls and the workload of each. */
  readonly #rows: number;
  readonly #block: readonly Sliced[];
  readonly #blockWorkloads: readonly string[];
  /** The calls of a token with uniforms. */
  readonly #sliced: readonly BoundProgram[];
  readonly #token: GPUBuffer;
  readonly #position: GPUBuffer;
  readonly #logits: GPUBuffer;

  private constructor(loaded: LoadedPlan<Sliced>, sliced: readonly Program[], plan: PlanWire) {
    const { placement, of } = loaded.buffers;
    const { step, vocabulary, rows } = plan.decoder as DecoderWire;
    const calls = plan.calls.slice(step);
    this.#loaded = loaded;
    this.#step = step;
    this.#vocabulary = vocabulary;
    this.#kept = loaded.bound.slice(step);
    this.#sliced = calls.map(({ kernel }, i) =>
      loaded.buffers.bound(step + i, sliced[kernel] as Program),
    );
    const workload = ({ kernel }: { kernel: number }) => plan.kernels[kernel] as string;
    this.#workloads = calls.map(workload);
    this.#rows = rows;
    this.#block = loaded.bound.slice(0, step);
    this.#blockWorkloads = plan.calls.slice(0, step).map(workload);
    this.calls = this.#kept.length;
    [this.#token, this.#position] = placement.inputs.map(of) as [GPUBuffer, GPUBuffer];
    [this.#logits] = placement.outputs.map(of) as [GPUBuffer];
  }

  static async load(url: string): Promise<BareDecoder> {
    const answer = (await (await fetch(url)).json()) as ModelAnswer;
    const order = { answer, origin: url, threads: 1, check: false, graph: null, replaced: [] };
    const loaded = await loadWhole(order, { progress: () => undefined });
    await loaded.stored;
    const { kernels } = answer.plan;
    const sliced = kernels.map((workload) => {
      const { kernel } = answer.kernels[workload] as ServedKernel;
      return loadProgram(loaded.open, new URL(url), kernel);
    });
    return new BareDecoder(loaded, await Promise.all(sliced), answer.plan);
  }

  /** The logits behind a prompt. */
  async logits(prompt: readonly number[]): Promise<Float32Array<ArrayBuffer>> {
    for (const [place, token] of prompt.entries()) {
      this.#go(token, place);
      this.#device.queue.submit([this.#encoded()]);
    }
    const bytes = this.#vocabulary * Float32Array.BYTES_PER_ELEMENT;
    const staging = stagingBuffer(this.#device, bytes);
    const encoder = this.#device.createCommandEncoder();
    encoder.copyBufferToBuffer(this.#logits, 0, staging, 0, bytes);
    this.#device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const found = new Float32Array(this.#vocabulary);
    found.set(new Float32Array(staging.getMappedRange(), 0, this.#vocabulary));
    staging.destroy();
    return found;
  }

  /** Milliseconds of a token, of so many from a place on. The cache holds whatever it holds. */
  async tokenMs(place: number, tokens: number, variant: Variant): Promise<number> {
    this.#go(0, place);
    const ring = Array.from({ length: variant.flights + 1 }, () =>
      stagingBuffer(this.#device, variant.interval * TOKEN_BYTES),
    );
    const flights: Flight[] = [];
    const land = async (): Promise<void> => {
      const { staging, mapped, made } = flights.shift() as Flight;
      await mapped;
      new Int32Array(staging.getMappedRange()).slice();
      staging.unmap();
      for (const bound of made) bound.dispose();
      ring.push(staging);
    };
    const start = now();
    for (let begun = 0; begun < tokens; begun += variant.interval) {
      flights.push(this.#fetch(ring.shift() as GPUBuffer, variant));
      while (flights.length > variant.flights) await land();
    }
    while (flights.length > 0) await land();
    const elapsed = now() - start;
    for (const staging of ring) staging.destroy();
    return elapsed / (Math.ceil(tokens / variant.interval) * variant.interval);
  }

  /** Times a token on the GPU alone, behind so many others. The cache holds whatever it holds. */
  profiles(contexts: readonly number[], samples: number): Promise<readonly Profile[]> {
    const { open } = this.#loaded;
    const go = (place: number): void => this.#go(0, place);
    const workloads = this.#workloads;
    return profiled({ open, calls: this.#kept, workloads, go, samples }, contexts);
  }

  /** Times the last block of prompts that have so many tokens, likewise. */
  async blockProfiles(contexts: readonly number[], samples: number): Promise<readonly Profile[]> {
    const { open } = this.#loaded;
    const go = (context: number): void => this.#go(0, Math.max(0, context - this.#rows));
    const workloads = this.#blockWorkloads;
    return profiled({ open, calls: this.#block, workloads, go, samples }, contexts);
  }

  dispose(): void {
    this.#device.destroy();
  }

  get #device(): GPUDevice {
    return this.#loaded.open.device;
  }

  /** The next token is decoded at a place, and is all that the prompt has. */
  #go(token: number, place: number): void {
    const { queue } = this.#device;
    queue.writeBuffer(this.#token, 0, Int32Array.of(token));
    queue.writeBuffer(this.#position, 0, Int32Array.of(place, place + 1, 0, 0));
  }

  /** Decodes the tokens of one fetch. */
  #fetch(staging: GPUBuffer, { reuse, interval, submission }: Variant): Flight {
    const made: BoundProgram[] = [];
    let encoder = this.#device.createCommandEncoder();
    const submit = (): void => {
      this.#device.queue.submit([encoder.finish()]);
      encoder = this.#device.createCommandEncoder();
    };
    for (let step = 0; step < interval; step++) {
      const fresh = reuse === "nothing" ? this.#bound() : [];
      made.push(...fresh);
      const kept = reuse === "all" ? this.#kept : this.#sliced;
      const bound = reuse === "nothing" ? fresh : kept;
      const passes = submission === "call" ? bound.map((each) => [each]) : [bound];
      for (const calls of passes) {
        const pass = encoder.beginComputePass();
        for (const call of calls) call.encode(pass);
        pass.end();
        if (submission === "call") submit();
      }
      encoder.copyBufferToBuffer(this.#token, 0, staging, step * TOKEN_BYTES, TOKEN_BYTES);
      if (submission !== "fetch") submit();
    }
    submit();
    return { staging, mapped: staging.mapAsync(GPUMapMode.READ), made };
  }

  /** All calls of a token. */
  #encoded(): GPUCommandBuffer {
    const encoder = this.#device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (const call of this.#kept) call.encode(pass);
    pass.end();
    return encoder.finish();
  }

  /** Uniform buffers and bind groups of all calls, made anew. */
  #bound(): readonly BoundProgram[] {
    const { buffers } = this.#loaded;
    return this.#sliced.map(({ program }, i) => buffers.bound(this.#step + i, program));
  }
}
