/** How long the GPU takes for what a pass holds. */
import { now } from "../../../../client/src/timing/clock.js";

/** Encodes the kernel's dispatches once. */
export type Encode = (pass: GPUComputePassEncoder) => void;

/** Chromium rounds timestamps to this; the error of a sample is at most twice that. */
const STEP_MS = 0.1;
/** Of a sample: 1 % of rounding. */
const SAMPLE_MS = 200 * STEP_MS;
const MOST_CALLS = 20_000;
const MOST_GROWTH = 16;
const TRIES = 5;

/** Owned by whoever owns the device. */
export class PassClock {
  readonly #device: GPUDevice;
  readonly #queries: GPUQuerySet | null;
  readonly #resolved: GPUBuffer;
  readonly #read: GPUBuffer;

  constructor(device: GPUDevice) {
    const timed = device.features.has("timestamp-query");
    this.#device = device;
    this.#queries = timed ? device.createQuerySet({ type: "timestamp", count: 2 }) : null;
    const { QUERY_RESOLVE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
    this.#resolved = device.createBuffer({ size: 16, usage: QUERY_RESOLVE | COPY_SRC });
    this.#read = device.createBuffer({ size: 16, usage: COPY_DST | MAP_READ });
  }

  /** "timestamp", or "wall" for the time until the queue says that it is done. */
  get kind(): "timestamp" | "wall" {
    return this.#queries === null ? "wall" : "timestamp";
  }

  /** Milliseconds of `calls` encodings in one pass. */
  async passMs(encode: Encode, calls: number): Promise<number> {
    for (let tries = 0; tries < TRIES; tries++) {
      const ms = await (this.#queries === null
        ? this.#wallMs(encode, calls)
        : this.#timestampMs(this.#queries, encode, calls));
      // Timestamps may run backwards, once in a while.
      if (ms >= 0) return ms;
    }
    throw new Error("timestamps run backwards");
  }

  /** As many calls as a sample of `sampleMs` needs; what that many took stands beside. */
  async sized(encode: Encode, sampleMs = SAMPLE_MS): Promise<{ calls: number; ms: number }> {
    for (let calls = 1; ; ) {
      const ms = await this.passMs(encode, calls);
      const growth = Math.min((1.2 * sampleMs) / Math.max(ms, STEP_MS), MOST_GROWTH);
      if (ms >= sampleMs || calls >= MOST_CALLS) return { calls, ms };
      calls = Math.min(Math.ceil(calls * Math.max(growth, 1.1)), MOST_CALLS);
    }
  }

  dispose(): void {
    this.#queries?.destroy();
    this.#resolved.destroy();
    this.#read.destroy();
  }

  async #wallMs(encode: Encode, calls: number): Promise<number> {
    const start = now();
    this.#device.queue.submit([this.#pass(encode, calls, {}).finish()]);
    await this.#device.queue.onSubmittedWorkDone();
    return now() - start;
  }

  async #timestampMs(querySet: GPUQuerySet, encode: Encode, calls: number): Promise<number> {
    const ends = { querySet, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 };
    const commands = this.#pass(encode, calls, { timestampWrites: ends });
    commands.resolveQuerySet(querySet, 0, 2, this.#resolved, 0);
    commands.copyBufferToBuffer(this.#resolved, 0, this.#read, 0, 16);
    this.#device.queue.submit([commands.finish()]);
    await this.#read.mapAsync(GPUMapMode.READ);
    const [start = 0n, end = 0n] = new BigUint64Array(this.#read.getMappedRange());
    this.#read.unmap();
    return Number(end - start) / 1e6;
  }

  #pass(encode: Encode, calls: number, descriptor: GPUComputePassDescriptor): GPUCommandEncoder {
    const commands = this.#device.createCommandEncoder();
    const pass = commands.beginComputePass(descriptor);
    for (let i = 0; i < calls; i++) encode(pass);
    pass.end();
    return commands;
  }
}
