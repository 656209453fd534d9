/** A framework with one operator ready to run, its inputs on the GPU. */
import type { Caller, GpuEntrant } from "./entrant.js";
import { PassClock } from "./pass-clock.js";
import type { GpuCase } from "./request.js";
import { recorded, replay } from "./tape.js";

export interface Peer extends Caller {
  readonly device: GPUDevice;
  /** Runs it and reads the output back. */
  output(): Promise<Float32Array>;
  dispose(): void;
}

/** Recorded anew for each sample, as a framework may use its buffers for something else since. */
export function peerEntrant(
  name: string,
  peer: Peer,
  given: GpuCase,
  difference: number,
): GpuEntrant {
  const clock = new PassClock(peer.device);
  return {
    name,
    flops: given.flops,
    bytes: 0,
    difference,
    clock,
    kernel: async () => {
      const dispatches = await recorded(async () => {
        await peer.call();
        await peer.settle();
      });
      if (dispatches.length === 0) throw new Error(`${name} dispatched nothing`);
      return (pass) => replay(pass, dispatches);
    },
    caller: peer,
    dispose: () => {
      clock.dispose();
      peer.dispose();
    },
  };
}
