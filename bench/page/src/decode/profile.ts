/** Measures what a token takes on the GPU alone, and how much of it each of its kernels takes. */
import type { Sliced } from "../../../../client/src/backend/webgpu/binding.js";
import { noActivity, raiseClock } from "../../../../client/src/backend/webgpu/clock.js";
import type { OpenDevice } from "../../../../client/src/backend/webgpu/device.js";
import { Chain } from "../../../../client/src/backend/webgpu/plan-loader.js";
import { gpuSampleNs } from "../../../../client/src/backend/webgpu/sample.js";
import { gpuTimer } from "../../../../client/src/backend/webgpu/timer.js";
import { now } from "../../../../client/src/timing/clock.js";
import type { Profile } from "./request.js";

const LIMIT_MS = 20_000;
const TOKENS = 24;
/** Calls of a kernel in one sample, at the least: all its layers, several times. */
const CALLS = 480;
export const SAMPLES = 5;

interface Profiled {
  readonly open: OpenDevice;
  readonly calls: readonly Sliced[];
  /** The workload of each call. */
  readonly workloads: readonly string[];
  /** Has the next token decoded at a place. */
  readonly go: (place: number) => void;
  /** Samples of each, `SAMPLES` at the most; with fewer each is of as many fewer calls, too. */
  readonly samples: number;
}

/** Calls follow each other without a gap: samples are of many calls in one pass. */
export async function profiled(
  { open, calls, workloads, go, samples: wanted }: Profiled,
  contexts: readonly number[],
): Promise<readonly Profile[]> {
  const token = new Chain(calls);
  const timer = await gpuTimer(open, (pass) => token.encode(pass), LIMIT_MS);
  const activity = noActivity();
  const count = Math.min(wanted, SAMPLES);
  const share = count / SAMPLES;
  const meanNs = async (chain: Chain, times: number, place: number): Promise<number> => {
    await raiseClock(timer, chain, activity, now() + LIMIT_MS);
    const samples: number[] = [];
    for (let i = 0; i < count; i++) {
      go(place);
      samples.push(await gpuSampleNs(timer, chain, { calls: times, passes: 1 }, now() + LIMIT_MS));
    }
    return samples.sort((a, b) => a - b)[count >> 1] as number;
  };
  const found: Profile[] = [];
  for (const context of contexts) {
    const tokenMs = (await meanNs(token, Math.ceil(share * TOKENS), context)) / 1e6;
    const kernels: Profile["kernels"][number][] = [];
    for (const workload of new Set(workloads)) {
      const own = calls.filter((_, i) => workloads[i] === workload);
      const ns = await meanNs(new Chain(own), Math.ceil((share * CALLS) / own.length), context);
      kernels.push({ workload, calls: own.length, us: ns / own.length / 1e3 });
    }
    found.push({ context, tokenMs, kernels });
  }
  timer.dispose();
  return found;
}
