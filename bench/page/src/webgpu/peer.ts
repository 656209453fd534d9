/** A framework with one operator ready to run, its inputs on the GPU. */
import type { Sliced } from "../../../../client/src/backend/webgpu/binding.js";
import { OpenDevice } from "../../../../client/src/backend/webgpu/device.js";
import { type GpuTimer, gpuTimer } from "../../../../client/src/backend/webgpu/timer.js";
import { now } from "../../../../client/src/timing/clock.js";
import type { Caller, GpuEntrant } from "./entrant.js";
import { shortWork } from "./limit.js";
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

const TIMER_MS = 30_000;
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

function ofKernel(all: readonly Dispatched[]): Sliced {
  const dispatches = all.filter(({ label }) => label !== AROUND_A_KERNEL);
  return { slices: 1, encode: (pass) => replay(pass, dispatches) };
}

const timers = new WeakMap<GPUDevice, GpuTimer>();

/** A framework keeps its device, so its timer is kept with it. */
async function timerOf(device: GPUDevice): Promise<GpuTimer> {
  const kept = timers.get(device);
  if (kept !== undefined) return kept;
  const open = new OpenDevice(device);
  const { encode } = await shortWork(open);
  const timer = await gpuTimer(open, encode, TIMER_MS);
  timers.set(device, timer);
  return timer;
}

/** Recorded anew for each sample, as a framework may use its buffers for something else since. */
export async function peerEntrant(
  name: string,
  peer: Peer,
  flops: number,
  difference: number | null,
): Promise<GpuEntrant> {
  const all = await dispatchesOf(peer);
  return {
    name,
    flops,
    bytes: 0,
    dispatches: all.map(({ label }) => label),
    profiledNs: await profiledNs(peer),
    difference,
    timer: await timerOf(peer.device),
    kernel: async () => ofKernel(await dispatchesOf(peer)),
    callers: { call: peer },
    dispose: peer.dispose,
  };
}
