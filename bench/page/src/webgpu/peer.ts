/** A framework with one operator ready to run, its inputs on the GPU. */
import { now } from "../../../../client/src/timing/clock.js";
import type { Caller, GpuEntrant } from "./entrant.js";
import { PassClock } from "./pass-clock.js";
import { type Dispatched, recorded, replay } from "./tape.js";

export interface Peer extends Caller {
  readonly device: GPUDevice;
  /** Runs it and reads the output back. */
  output(): Promise<Float32Array>;
  /** One call in the framework's own profile, in milliseconds, where it has one. */
  readonly profileMs?: () => Promise<number>;
  dispose(): void;
}

/**
 * onnxruntime-web turns an image to have channels last before a convolution, and back after it;
 * between the layers of a model it does not, so that this is no part of a kernel's time.
 */
const AROUND_A_KERNEL = "Transpose";

const PROFILES = 100;
const PROFILES_MS = 500;

/** Timestamps are rounded to 0.1 ms, so a mean over many is all that can be had. */
async function profiledNs({ profileMs }: Peer): Promise<number | null> {
  if (profileMs === undefined) return null;
  let [calls, sumMs] = [0, 0];
  for (const start = now(); calls < PROFILES && now() - start < PROFILES_MS; calls++) {
    sumMs += await profileMs();
  }
  return (sumMs * 1e6) / calls;
}

async function dispatchesOf(peer: Peer): Promise<readonly Dispatched[]> {
  const dispatches = await recorded(async () => {
    await peer.call();
    await peer.settle();
  });
  if (dispatches.length === 0) throw new Error("a call dispatched nothing");
  return dispatches;
}

/** Recorded anew for each sample, as a framework may use its buffers for something else since. */
export async function peerEntrant(
  name: string,
  peer: Peer,
  flops: number,
  difference: number,
): Promise<GpuEntrant> {
  const clock = new PassClock(peer.device);
  return {
    name,
    flops,
    bytes: 0,
    dispatches: (await dispatchesOf(peer)).map(({ label }) => label),
    profiledNs: await profiledNs(peer),
    difference,
    clock,
    kernel: async () => {
      const all = await dispatchesOf(peer);
      const dispatches = all.filter(({ label }) => label !== AROUND_A_KERNEL);
      return (pass) => replay(pass, dispatches);
    },
    caller: peer,
    dispose: () => {
      clock.dispose();
      peer.dispose();
    },
  };
}
