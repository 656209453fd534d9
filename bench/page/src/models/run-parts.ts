/**
 * Measures what a run of ours on a GPU is made of, without the SDK and its worker around it: the
 * milliseconds that the page needs to hand it over, the GPU to compute it, and its outputs to be
 * there.
 */

import type { Sliced } from "../../../../client/src/backend/webgpu/binding.js";
import { padded, stagingBuffer } from "../../../../client/src/backend/webgpu/buffers.js";
import { Nudger } from "../../../../client/src/backend/webgpu/nudger.js";
import {
  Chain,
  type LoadedPlan,
  loadWhole,
} from "../../../../client/src/backend/webgpu/plan-loader.js";
import {
  type GpuOutput,
  PIECE_BYTES,
  Staging,
} from "../../../../client/src/backend/webgpu/staging.js";
import { productOf } from "../../../../client/src/engine/tensors.js";
import { breathing } from "../../../../client/src/executor/event-loop.js";
import { median } from "../../../../client/src/model/profile.js";
import { now } from "../../../../client/src/timing/clock.js";
import type { ModelAnswer } from "../../../../client/src/wire/model-answer.js";
import { profiled, SAMPLES } from "../decode/profile.js";
import type { Profile } from "../decode/request.js";

const RUNS = 15;
/** Work before runs that find the GPU's clock up. */
const RAISING_MS = 400;
const STAMPS = 2;
const STAMP_BYTES = 8;
const NS_PER_MS = 1e6;

/**
 * Medians of milliseconds. `encode`: until the run is submitted. `gpu`: from the begin of the first
 * kernel to the end of the last, by the GPU's clock. `mapped`: from the submission until the page
 * has the outputs. `total`: all of it, with the copy of the outputs.
 */
export interface RunParts {
  readonly name: string;
  readonly encodeMs: number;
  readonly gpuMs: number | null;
  readonly mappedMs: number;
  readonly totalMs: number;
}

/**
 * Milliseconds in which outputs are read that are there already, from a run that computes nothing: in
 * staging buffers of so many bytes, to fresh memory or that of the run before.
 */
export interface Reading {
  readonly pieceBytes: number;
  readonly reused: boolean;
  readonly ms: number;
}

/** The sizes of staging buffers that are compared; the second one is the runtime's. */
const PIECES = [1 << 20, PIECE_BYTES, 16 << 20, 1 << 30];

/** A run as `parts` are of it: in how many submissions, whether the GPU's clock was brought up. */
interface Way {
  readonly name: string;
  readonly submissions: number;
  readonly nudges: boolean;
  readonly raised: boolean;
}

const WAYS: readonly Way[] = [
  { name: "awaited", submissions: 1, nudges: true, raised: false },
  { name: "clock up", submissions: 1, nudges: true, raised: true },
  { name: "clock up, not nudged", submissions: 1, nudges: false, raised: true },
  { name: "clock up, two submissions", submissions: 2, nudges: true, raised: true },
  { name: "clock up, four submissions", submissions: 4, nudges: true, raised: true },
];

interface Sample {
  readonly encodeMs: number;
  readonly gpuMs: number | null;
  readonly mappedMs: number;
  readonly totalMs: number;
}

/** A plan on the GPU with what its runs need. */
export class BareModel {
  readonly #loaded: LoadedPlan<Sliced>;
  readonly #workloads: readonly string[];
  readonly #inputs: readonly (readonly [GPUBuffer, Uint8Array<ArrayBuffer>])[];
  readonly #outputs: readonly GpuOutput[];
  readonly #staging: Staging;
  readonly #stamps: GPUQuerySet | null;
  readonly #resolved: GPUBuffer;
  readonly #told: GPUBuffer;
  readonly #nudger: Nudger;

  private constructor(loaded: LoadedPlan<Sliced>, { plan }: ModelAnswer) {
    const { device } = loaded.open;
    const { placement, of } = loaded.buffers;
    this.#loaded = loaded;
    this.#workloads = plan.calls.map(({ kernel }) => plan.kernels[kernel] as string);
    this.#inputs = plan.inputs.map((port, i) => [
      of(placement.inputs[i] as (typeof placement.inputs)[number]),
      new Uint8Array(4 * productOf(port.shape)),
    ]);
    this.#outputs = plan.outputs.map(({ shape, tensor }, i) => {
      const from = of(placement.outputs[i] as (typeof placement.outputs)[number]);
      const { dtype } = plan.tensors[tensor] as { dtype: "f32" | "i32" };
      const entries = productOf(shape);
      return { part: 0, from, bytes: padded(4 * entries), dtype, entries };
    });
    this.#staging = new Staging(device, this.#outputs);
    const stamps = device.features.has("timestamp-query");
    this.#stamps = stamps ? device.createQuerySet({ type: "timestamp", count: STAMPS }) : null;
    const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
    this.#resolved = device.createBuffer({ size: STAMPS * STAMP_BYTES, usage });
    this.#told = stagingBuffer(device, STAMPS * STAMP_BYTES);
    this.#nudger = new Nudger(device.queue, breathing());
  }

  static async load(url: string): Promise<BareModel> {
    const answer = (await (await fetch(url)).json()) as ModelAnswer;
    const order = { answer, origin: url, threads: 1, check: false, graph: null, replaced: [] };
    const loaded = await loadWhole(order, { progress: () => undefined });
    await loaded.stored;
    return new BareModel(loaded, answer);
  }

  get calls(): number {
    return this.#loaded.bound.length;
  }

  async parts(): Promise<readonly RunParts[]> {
    const found: RunParts[] = [];
    for (const way of WAYS) {
      if (way.raised) await this.#raise();
      const samples: Sample[] = [];
      for (let i = 0; i < RUNS; i++) samples.push(await this.#run(way));
      const gpu = samples.map(({ gpuMs }) => gpuMs).filter((ms) => ms !== null);
      found.push({
        name: way.name,
        encodeMs: median(samples.map(({ encodeMs }) => encodeMs)),
        gpuMs: gpu.length > 0 ? median(gpu) : null,
        mappedMs: median(samples.map(({ mappedMs }) => mappedMs)),
        totalMs: median(samples.map(({ totalMs }) => totalMs)),
      });
    }
    return found;
  }

  /** The limit of reading, in each way. */
  async readings(): Promise<readonly Reading[]> {
    const { device } = this.#loaded.open;
    const found: Reading[] = [];
    const total = this.#outputs.reduce((sum, { bytes }) => sum + bytes, 0);
    const sizes = PIECES.filter((size, i) => i === 1 || size < total || size === PIECES.at(-1));
    for (const pieceBytes of sizes) {
      const staging = new Staging(device, this.#outputs, pieceBytes);
      for (const reused of [false, true]) {
        let last: Awaited<ReturnType<Staging["read"]>> = [];
        const samples: number[] = [];
        for (let i = 0; i <= RUNS; i++) {
          const start = now();
          const encoder = device.createCommandEncoder();
          this.#copied(encoder, staging);
          device.queue.submit([encoder.finish()]);
          last = await staging.read(reused ? last : [], (mapped) => this.#nudger.during(mapped));
          if (i > 0) samples.push(now() - start);
        }
        found.push({ pieceBytes, reused, ms: median(samples) });
      }
    }
    return found;
  }

  /** A run when runs follow each other without a gap, and each of its kernels. */
  async profile(): Promise<Profile> {
    const { open, bound } = this.#loaded;
    const run = {
      ...{ open, calls: bound, workloads: this.#workloads },
      ...{ go: () => undefined, samples: SAMPLES },
    };
    const [found] = await profiled(run, [0]);
    return found as Profile;
  }

  dispose(): void {
    this.#loaded.open.dispose();
  }

  async #raise(): Promise<void> {
    const { queue } = this.#loaded.open.device;
    const start = now();
    while (now() - start < RAISING_MS) {
      for (let i = 0; i < 3; i++) queue.submit([this.#encoded(this.#loaded.bound, null, false)]);
      await queue.onSubmittedWorkDone();
    }
  }

  async #run({ submissions, nudges }: Way): Promise<Sample> {
    const { device } = this.#loaded.open;
    const { bound } = this.#loaded;
    const start = now();
    for (const [buffer, zeros] of this.#inputs) device.queue.writeBuffer(buffer, 0, zeros);
    for (let part = 0; part < submissions; part++) {
      const [from, to] = [part, part + 1].map((end) =>
        Math.floor((end * bound.length) / submissions),
      );
      const calls = bound.slice(from, to);
      const last = part === submissions - 1;
      const stamps = { first: part === 0, last };
      device.queue.submit([this.#encoded(calls, stamps, last)]);
    }
    const submitted = now();
    let mapped = submitted;
    await this.#staging.read([], async (mapping) => {
      await (nudges ? this.#nudger.during(mapping) : mapping);
      mapped = now();
    });
    const end = now();
    return {
      encodeMs: submitted - start,
      gpuMs: await this.#gpuMs(),
      mappedMs: mapped - submitted,
      totalMs: end - start,
    };
  }

  #encoded(
    calls: readonly Sliced[],
    stamps: { readonly first: boolean; readonly last: boolean } | null,
    copies: boolean,
  ): GPUCommandBuffer {
    const encoder = this.#loaded.open.device.createCommandEncoder();
    const asked = this.#stamps !== null && stamps !== null && (stamps.first || stamps.last);
    const pass = encoder.beginComputePass(
      asked
        ? {
            timestampWrites: {
              querySet: this.#stamps as GPUQuerySet,
              ...(stamps.first ? { beginningOfPassWriteIndex: 0 } : {}),
              ...(stamps.last ? { endOfPassWriteIndex: 1 } : {}),
            },
          }
        : {},
    );
    new Chain(calls).encode(pass);
    pass.end();
    if (copies) this.#copied(encoder, this.#staging);
    return encoder.finish();
  }

  #copied(encoder: GPUCommandEncoder, { copies }: Staging): void {
    for (const { from, at, to, offset, bytes } of copies) {
      encoder.copyBufferToBuffer(from, at, to, offset, bytes);
    }
  }

  async #gpuMs(): Promise<number | null> {
    if (this.#stamps === null) return null;
    const { device } = this.#loaded.open;
    const encoder = device.createCommandEncoder();
    encoder.resolveQuerySet(this.#stamps, 0, STAMPS, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, this.#told, 0, STAMPS * STAMP_BYTES);
    device.queue.submit([encoder.finish()]);
    await this.#told.mapAsync(GPUMapMode.READ);
    const [begin = 0n, end = 0n] = new BigUint64Array(this.#told.getMappedRange());
    const ms = Number(end - begin) / NS_PER_MS;
    this.#told.unmap();
    return ms;
  }
}
