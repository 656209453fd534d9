/** Measures on the GPU. A device that is lost costs one candidate; the next has another device. */
import { CompileDeadline, compilesOneByOne } from "../gpu/compiling.js";
import type { OpenDevice } from "../gpu/device.js";
import type { DeviceOwner } from "../gpu/owner.js";
import type { KernelWire, Lease, MeasurementWire } from "../wire/types.js";
import { failureOf } from "./failure.js";
import { GpuBench } from "./gpu-bench.js";
import { type GpuReference, gpuReference, measureGpu, measureGpuAgain } from "./gpu-measure.js";
import type { Instrument, LeaseInstrument, TimedWork } from "./instrument.js";
import type { LoadProgram } from "./program-cache.js";

/** Work that was given up may still run; after this long the device is given up with it. */
const DRAIN_MS = 10_000;

/** What one lease has on one device. */
interface Stand {
  readonly open: OpenDevice;
  readonly bench: GpuBench;
  readonly reference: GpuReference;
}

class GpuLease implements LeaseInstrument {
  readonly #owner: DeviceOwner;
  readonly #load: LoadProgram;
  readonly #lease: Lease;
  readonly #kernels: readonly KernelWire[];
  readonly #careful: () => void;
  #stand: Stand | null = null;

  constructor(
    owner: DeviceOwner,
    load: LoadProgram,
    lease: Lease,
    kernels: readonly KernelWire[],
    careful: () => void,
  ) {
    this.#owner = owner;
    this.#load = load;
    this.#lease = lease;
    this.#kernels = kernels;
    this.#careful = careful;
  }

  async candidate(kernel: KernelWire): Promise<MeasurementWire | TimedWork<MeasurementWire>> {
    const open = await this.#owner.device();
    try {
      await this.#load(open, kernel);
    } catch (thrown) {
      if (compilesOneByOne()) this.#careful();
      // Of several that compile at once it is not known who lost the device: again, and alone.
      if (open.loss === null || thrown instanceof CompileDeadline) return failureOf(kernel, thrown);
    }
    return () => this.#attempt(kernel);
  }

  async again(kernels: readonly KernelWire[]): Promise<() => Promise<readonly number[]>> {
    const open = await this.#owner.device();
    await Promise.all(kernels.map((kernel) => this.#load(open, kernel)));
    return async () => {
      const { open: ready, bench, reference } = await this.#ready();
      const programs = await Promise.all(kernels.map((kernel) => this.#load(ready, kernel)));
      return measureGpuAgain(bench, reference, programs);
    };
  }

  dispose(): void {
    this.#stand?.reference.bound.dispose();
    this.#stand?.reference.timer.dispose();
    this.#stand?.bench.dispose();
    this.#stand = null;
  }

  async #attempt(kernel: KernelWire): Promise<MeasurementWire> {
    const { open, bench, reference } = await this.#ready();
    try {
      return await measureGpu(bench, this.#lease, reference, await this.#load(open, kernel));
    } catch (thrown) {
      const failure = failureOf(kernel, thrown);
      // Nobody's samples are to be taken beside what a failure has left on the GPU.
      await open.idle(DRAIN_MS).catch(() => {
        if (open.loss === null) open.dispose();
      });
      return failure;
    }
  }

  /** The tensors and the reference on a device that lives, or on the next where another's kernel
   * loses it meanwhile. */
  async #ready(): Promise<Stand> {
    const open = await this.#owner.device();
    try {
      return await this.#standOn(open);
    } catch (thrown) {
      if (open.loss === null || thrown instanceof CompileDeadline) throw thrown;
      return this.#standOn(await this.#owner.device());
    }
  }

  async #standOn(open: OpenDevice): Promise<Stand> {
    if (this.#stand?.open === open) return this.#stand;
    this.dispose();
    const program = await this.#load(open, this.#lease.reference);
    const bench = await GpuBench.make(open, this.#lease, this.#kernels);
    this.#stand = { open, bench, reference: await gpuReference(bench, program) };
    return this.#stand;
  }
}

/** Measures on the owner's device. `careful` is called when pipelines are asked for one by one. */
export function gpuInstrument(
  owner: DeviceOwner,
  load: LoadProgram,
  careful: () => void = () => undefined,
): Instrument {
  return {
    async open(lease, kernels) {
      const open = await owner.device();
      const all = [lease.reference, ...kernels];
      // All fetches begin at once; whoever needs a kernel sees its failure, also the reference's.
      for (const kernel of all) load(open, kernel).catch(() => undefined);
      return new GpuLease(owner, load, lease, all, careful);
    },
  };
}
