/** Measures how long a compute pass takes on the GPU. */
import { KernelZooError } from "../../engine/error.js";
import { now } from "../../timing/clock.js";
import { submitPass } from "./binding.js";
import { readBuffer } from "./buffers.js";
import type { OpenDevice } from "./device.js";

type Encode = (pass: GPUComputePassEncoder) => void;

/** Times one pass at a time. */
export interface GpuTimer {
  readonly kind: "timestamp" | "wall";
  /** Its resolution. */
  readonly tickMs: number;
  /** The step that `callsPerSample` sizes samples for, as if it were the resolution. */
  readonly stepMs: number;
  /** Nanoseconds of a pass. Throws KernelZooError: run, timeout after `limitMs`. */
  passNs(encode: Encode, limitMs: number): Promise<number>;
  dispose(): void;
}

/**
 * Returns a timer that rests before each pass, so that something else may go first, and whose
 * samples are as short as its resolution lets them be: the work beside which they are taken has
 * raised the clock.
 */
export const restingTimer = (timer: GpuTimer, rest: () => Promise<void>): GpuTimer => ({
  ...timer,
  stepMs: timer.tickMs,
  async passNs(encode, limitMs) {
    await rest();
    return timer.passNs(encode, limitMs);
  },
});

const BYTES_PER_STAMP = 8;
/** A pass whose timestamps run backwards is repeated this often. */
const ATTEMPTS = 8;
/** Passes of one reading of the quantum, each of twice as many calls until enough ticks differ. */
const QUANTUM_PASSES = 16;
const QUANTUM_TICKS = 6;
/** A reading that took this long saw a hundred ticks of any clock that ticks at all. */
const QUANTUM_LIMIT_MS = 100;

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestCommonDivisor(b, a % b);
}

/**
 * Returns the step of timestamps in nanoseconds: the largest that divides all their differences.
 * Null when fewer than six differ, as three ticks may be a multiple of the step apart.
 */
export function quantumNs(stamps: readonly bigint[]): number | null {
  const distinct = [...new Set(stamps)].sort((a, b) => (a < b ? -1 : 1));
  if (distinct.length < QUANTUM_TICKS) return null;
  const [first = 0n] = distinct;
  return Number(distinct.map((stamp) => stamp - first).reduce(greatestCommonDivisor));
}

/** Begin and end of `count` passes in turn. */
class Stamps {
  readonly #open: OpenDevice;
  readonly #queries: GPUQuerySet;
  readonly #resolved: GPUBuffer;

  constructor(open: OpenDevice, passes: number) {
    const { device } = open;
    const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
    this.#open = open;
    this.#queries = device.createQuerySet({ type: "timestamp", count: 2 * passes });
    this.#resolved = device.createBuffer({ size: 2 * passes * BYTES_PER_STAMP, usage });
  }

  async of(encodes: readonly Encode[], limitMs: number): Promise<readonly bigint[]> {
    const { device } = this.#open;
    const encoder = device.createCommandEncoder();
    for (const [i, encode] of encodes.entries()) {
      const pass = encoder.beginComputePass({
        timestampWrites: {
          querySet: this.#queries,
          beginningOfPassWriteIndex: 2 * i,
          endOfPassWriteIndex: 2 * i + 1,
        },
      });
      encode(pass);
      pass.end();
    }
    encoder.resolveQuerySet(this.#queries, 0, 2 * encodes.length, this.#resolved, 0);
    device.queue.submit([encoder.finish()]);
    const bytes = 2 * encodes.length * BYTES_PER_STAMP;
    const read = await readBuffer(this.#open, this.#resolved, bytes, limitMs);
    return [...new BigInt64Array(read)];
  }

  dispose(): void {
    this.#queries.destroy();
    this.#resolved.destroy();
  }
}

/** The step of this device's timestamps, seen over passes of `encode`; null where none is seen. */
async function measuredQuantumNs(
  stamps: Stamps,
  encode: Encode,
  limitMs: number,
): Promise<number | null> {
  for (let calls = 1; ; calls *= 2) {
    const repeated: Encode = (pass) => {
      for (let i = 0; i < calls; i++) encode(pass);
    };
    const passes = new Array<Encode>(QUANTUM_PASSES).fill(repeated);
    const start = now();
    const stepNs = quantumNs(await stamps.of(passes, limitMs));
    if (stepNs !== null || now() - start > QUANTUM_LIMIT_MS) return stepNs;
  }
}

/**
 * Samples are sized for no finer step than this, as an idle GPU takes milliseconds to raise its
 * clock.
 */
const FINEST_STEP_MS = 0.05;

function timestampTimer(stamps: Stamps, stepNs: number): GpuTimer {
  return {
    kind: "timestamp",
    tickMs: stepNs / 1e6,
    stepMs: Math.max(stepNs / 1e6, FINEST_STEP_MS),
    async passNs(work, limit) {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const [begin = 0n, end = 0n] = await stamps.of([work], limit);
        // Some drivers let the clock run backwards when the GPU changes its frequency.
        if (end >= begin) return Number(end - begin);
      }
      throw new KernelZooError("run", "The timestamps of this GPU run backwards.");
    },
    dispose: () => stamps.dispose(),
  };
}

/** The browser polls the GPU: 50 ms of work keep the error below one percent. */
const WALL_STEP_MS = 0.5;
const EMPTY_PASSES = 3;

function wallTimer(open: OpenDevice): GpuTimer {
  const elapsedMs = async (encode: Encode, limitMs: number): Promise<number> => {
    const start = now();
    submitPass(open.device, encode);
    await open.idle(limitMs);
    return now() - start;
  };
  const nothing: Encode = () => undefined;
  return {
    kind: "wall",
    tickMs: WALL_STEP_MS,
    stepMs: WALL_STEP_MS,
    async passNs(work, limitMs) {
      let emptyMs = Number.POSITIVE_INFINITY;
      for (let i = 0; i < EMPTY_PASSES; i++) {
        emptyMs = Math.min(emptyMs, await elapsedMs(nothing, limitMs));
      }
      return Math.max((await elapsedMs(work, limitMs)) - emptyMs, 0) * 1e6;
    },
    dispose: () => undefined,
  };
}

/**
 * Makes a timer: by timestamps where the device has some that tick, by the page's clock elsewhere.
 * `encode` is some short work over which the step of timestamps is seen.
 */
export async function gpuTimer(
  open: OpenDevice,
  encode: Encode,
  limitMs: number,
): Promise<GpuTimer> {
  if (!open.device.features.has("timestamp-query")) return wallTimer(open);
  const stamps = new Stamps(open, QUANTUM_PASSES);
  const stepNs = await measuredQuantumNs(stamps, encode, limitMs);
  if (stepNs !== null) return timestampTimer(stamps, stepNs);
  stamps.dispose();
  return wallTimer(open);
}
