/** Times the calls of a plan on the GPU, each by itself: in a run they overlap. */
import { now } from "../../timing/clock.js";
import type { CallTimes } from "../wasm/dispatch.js";
import type { BoundCall } from "./binding.js";
import type { OpenDevice } from "./device.js";
import { gpuSampleNs, shapeOf } from "./sample.js";
import { type GpuTimer, gpuTimer, restingTimer } from "./timer.js";

export class CallTimer {
  readonly #timer: GpuTimer;

  private constructor(timer: GpuTimer) {
    this.#timer = timer;
  }

  /** `rest` is awaited before each pass, so that something else may go first. */
  static async make(
    open: OpenDevice,
    some: BoundCall,
    limitMs: number,
    rest: (() => Promise<void>) | null,
  ): Promise<CallTimer> {
    const encode = (pass: GPUComputePassEncoder): void => some.encode(pass);
    const timer = await gpuTimer(open, encode, limitMs);
    return new CallTimer(rest === null ? timer : restingTimer(timer, rest));
  }

  /** Calls of one program take the same time; each is timed once. Throws KernelZooError: run, timeout. */
  async times(calls: readonly BoundCall[], limitMs: number): Promise<CallTimes> {
    const times = new Float64Array(3 * calls.length);
    const known = new Map<unknown, number>();
    let start = 0;
    for (const [i, call] of calls.entries()) {
      const elapsed = known.get(call.program) ?? (await this.#callMs(call, now() + limitMs));
      known.set(call.program, elapsed);
      times.set([start, elapsed, 1], 3 * i);
      start += elapsed;
    }
    return times;
  }

  dispose(): void {
    this.#timer.dispose();
  }

  async #callMs(call: BoundCall, untilMs: number): Promise<number> {
    const onceNs = await gpuSampleNs(this.#timer, call, { calls: 1, passes: 1 }, untilMs);
    const shape = await shapeOf(this.#timer, call, onceNs / 1e6, untilMs);
    return (await gpuSampleNs(this.#timer, call, shape, untilMs)) / 1e6;
  }
}
