import { Arena } from "../engine/arena.js";
import type { KernelZooError } from "../engine/error.js";
import { loadPacks } from "../engine/packing.js";
import type { KernelWire, Lease, MeasurementWire } from "../wire/types.js";
import { Bench } from "./bench.js";
import { didNotCompile, failureOf } from "./failure.js";
import { measure, measureAgain, type Reference, setReference } from "./measure.js";
import type { LoadKernel } from "./module-cache.js";

/** Work that is to run inside a turn; of wasm it holds its thread until it is done. */
export type TimedWork<T> = () => T | Promise<T>;

/** Measures the candidates of one lease. */
export interface LeaseInstrument {
  /**
   * Fetches and compiles; the work verifies and times. What does not compile is a failure at once.
   * Rejects only when the network fails, or the GPU for good.
   */
  candidate(kernel: KernelWire): Promise<MeasurementWire | TimedWork<MeasurementWire>>;
  /** Relative times of `kernels`, in order, measured against each other. */
  again(kernels: readonly KernelWire[]): Promise<TimedWork<readonly number[]>>;
  dispose(): void;
}

/**
 * Told when the reference of a lease does not compile here. Nothing of such a lease can be measured,
 * and no measurement says why unless the reference is a candidate of the lease as well.
 */
export type ReferenceFailed = (lease: Lease, thrown: KernelZooError) => void;

/** Tells of a reference that does not compile and is not among the candidates of its lease. */
export function tellReference(lease: Lease, thrown: unknown, told: ReferenceFailed): void {
  const { sha256 } = lease.reference;
  const measured = lease.candidates.some((candidate) => candidate.sha256 === sha256);
  if (didNotCompile(thrown) && !measured) told(lease, thrown);
}

/** `kernels` are all that will be measured under this lease. */
export interface Instrument {
  open(lease: Lease, kernels: readonly KernelWire[]): Promise<LeaseInstrument>;
}

function leaseInstrument(
  lease: Lease,
  bench: Bench,
  referenceModule: WebAssembly.Module,
  load: LoadKernel,
  stepMs: number,
): LeaseInstrument {
  let known: Reference | undefined;
  const reference = (): Reference => {
    known ??= setReference(bench, lease.reference, referenceModule, stepMs);
    return known;
  };
  const attempt = async (
    kernel: KernelWire,
    module: WebAssembly.Module,
  ): Promise<MeasurementWire> => {
    const against = reference();
    try {
      return await measure(bench, lease, against, kernel, module, stepMs);
    } catch (thrown) {
      bench.reset();
      return failureOf(kernel, thrown);
    }
  };
  return {
    async candidate(kernel) {
      try {
        const module = await load(kernel);
        return () => attempt(kernel, module);
      } catch (thrown) {
        return failureOf(kernel, thrown);
      }
    },
    async again(kernels) {
      const modules = await Promise.all(kernels.map(load));
      const pairs = kernels.map((kernel, i) => [kernel, modules[i] as WebAssembly.Module] as const);
      return () => measureAgain(bench, reference(), pairs, stepMs);
    },
    dispose: () => bench.dispose(),
  };
}

/** Measures in this thread, in one shared memory that grows with the workloads. */
export function wasmInstrument(
  load: LoadKernel,
  stepMs: number,
  referenceFailed: ReferenceFailed = () => undefined,
): Instrument {
  const arena = new Arena();
  return {
    async open(lease, kernels) {
      // All fetches begin at once; whoever needs a kernel sees its failure.
      for (const kernel of kernels) load(kernel).catch(() => undefined);
      const all = [lease.reference, ...kernels];
      const reference = load(lease.reference);
      reference.catch((thrown) => tellReference(lease, thrown, referenceFailed));
      const [module, packs] = await Promise.all([reference, loadPacks(all, load)]);
      const bench = new Bench(arena, lease, all, packs);
      return leaseInstrument(lease, bench, module, load, stepMs);
    },
  };
}
