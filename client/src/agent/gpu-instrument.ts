/** Measures on the GPU. A device that is lost costs one candidate; the next has another device. */
import { CompileDeadline, compilesOneByOne } from "../gpu/compiling.js";
import type { OpenDevice } from "../gpu/device.js";
import type { DeviceOwner } from "../gpu/owner.js";
import type { Program } from "../gpu/program.js";
import type { KernelWire, Lease, MeasurementWire } from "../wire/types.js";
import { didNotCompile, failureOf } from "./failure.js";
import { GpuBench } from "./gpu-bench.js";
import { type GpuReference, gpuReference, measureGpu, measureGpuAgain } from "./gpu-measure.js";
import {
  type Instrument,
  type LeaseInstrument,
  type ReferenceFailed,
  type TimedWork,
  tellReference,
} from "./instrument.js";
import type { LoadProgram } from "./program-cache.js";

/** Work that was given up may still run; after this long the device is given up with it. */
const DRAIN_MS = 10_000;

/** What one lease has on one device. */
interface Stand {
  readonly open: OpenDevice;
  readonly bench: GpuBench;
  readonly reference: GpuReference;
}

export interface GpuInstrumentPorts {
  /** Told when pipelines are asked for one by one, since a driver did not end one. */
  readonly careful?: () => void;
  readonly referenceFailed?: ReferenceFailed;
}

class GpuLease implements LeaseInstrument {
  readonly #owner: DeviceOwner;
  readonly #load: LoadProgram;
  readonly #lease: Lease;
  readonly #kernels: readonly KernelWire[];
  readonly #ports: GpuInstrumentPorts;
  #stand: Stand | null = null;
  /** Why nothing of this lease can be measured: its reference does not compile here. */
  #refused: unknown = null;

  constructor(
    owner: DeviceOwner,
    load: LoadProgram,
    lease: Lease,
    kernels: readonly KernelWire[],
    ports: GpuInstrumentPorts,
  ) {
    this.#owner = owner;
    this.#load = load;
    this.#lease = lease;
    this.#kernels = kernels;
    this.#ports = ports;
  }

  /** Begins all fetches at once; whoever needs a kernel sees its failure. */
  begin(open: OpenDevice): void {
    this.#reference(open).catch(() => undefined);
    for (const kernel of this.#kernels) {
      if (kernel !== this.#lease.reference) this.#load(open, kernel).catch(() => undefined);
    }
  }

  async candidate(kernel: KernelWire): Promise<MeasurementWire | TimedWork<MeasurementWire>> {
    const open = await this.#owner.device();
    try {
      await this.#load(open, kernel);
    } catch (thrown) {
      if (compilesOneByOne()) this.#ports.careful?.();
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

  /** A reference that did not compile is told once, and no driver is asked for it again. */
  async #reference(open: OpenDevice): Promise<Program> {
    if (this.#refused !== null) throw this.#refused;
    try {
      return await this.#load(open, this.#lease.reference);
    } catch (thrown) {
      if (didNotCompile(thrown)) this.#refused = thrown;
      tellReference(this.#lease, thrown, this.#ports.referenceFailed ?? (() => undefined));
      throw thrown;
    }
  }

  async #standOn(open: OpenDevice): Promise<Stand> {
    if (this.#stand?.open === open) return this.#stand;
    this.dispose();
    const program = await this.#reference(open);
    const bench = await GpuBench.make(open, this.#lease, this.#kernels);
    this.#stand = { open, bench, reference: await gpuReference(bench, program) };
    return this.#stand;
  }
}

/** Measures on the owner's device. */
export function gpuInstrument(
  owner: DeviceOwner,
  load: LoadProgram,
  ports: GpuInstrumentPorts = {},
): Instrument {
  return {
    async open(lease, kernels) {
      const open = await owner.device();
      const opened = new GpuLease(owner, load, lease, [lease.reference, ...kernels], ports);
      opened.begin(open);
      return opened;
    },
  };
}
