/**
 * Describes the instruments that measure the candidates of a lease or of a model's stream, for each
 * target in its own way.
 */
import type { Linked } from "../backend/wasm/program.js";
import type { KernelZooError } from "../engine/error.js";
import type { KernelWire, MeasurementWire } from "../wire/types.js";
import type { Subject } from "./measurement.js";
import { didNotCompile } from "./measurement.js";

/** Work that runs inside a turn. That of wasm holds its thread until it is done. */
export type TimedWork<T> = () => T | Promise<T>;

/** Measures candidates of one subject. Owns their tensors until it is disposed. */
export interface LeaseInstrument {
  /**
   * Fetches and compiles, and answers the work that verifies and times, or the failure to compile.
   * Rejects only when the network fails or the GPU cannot be had any more.
   */
  candidate(kernel: KernelWire): Promise<MeasurementWire | TimedWork<MeasurementWire>>;
  /** Relative times of `kernels`, in order, measured against each other. */
  again(kernels: readonly KernelWire[]): Promise<TimedWork<readonly number[]>>;
  /**
   * Returns the compiled modules of a kernel of these and of its pack kernels, where the worker of a
   * model can take them over.
   */
  modules?(kernel: KernelWire): Promise<readonly Linked[]>;
  dispose(): void;
}

/**
 * Called when the reference of a lease does not compile here. Nothing of such a lease can be
 * measured, and no measurement says why unless the reference is a candidate of the lease as well.
 */
export type ReferenceFailed = (subject: Subject, thrown: KernelZooError) => void;

/** Tells of a reference that does not compile and is not among the candidates of its lease. */
export function tellReference(subject: Subject, thrown: unknown, failed: ReferenceFailed): void {
  const { sha256 } = subject.reference;
  const measured = subject.candidates?.some((candidate) => candidate.sha256 === sha256);
  if (didNotCompile(thrown) && !measured) failed(subject, thrown);
}

/** `kernels` are all that will be measured under this lease. */
export interface Instrument {
  open(subject: Subject, kernels: readonly KernelWire[]): Promise<LeaseInstrument>;
}
