/** Types of what a kernel is made from, and of what it tells of itself. */
import type { Arena } from "../engine/arena.js";
import { KernelZooError } from "../engine/error.js";
import type { LoadedKernel } from "../engine/modules.js";
import type { TensorView } from "../engine/tensors.js";
import type { Deadline } from "../gateway/deadline.js";
import type { Failures } from "../gateway/failures.js";
import type { Threads } from "../threads/threads.js";
import type {
  Advice,
  EntryState,
  Evidence,
  Grounds,
  HitLevel,
  KernelWire,
  ManifestEntry,
  ServedKernel,
  TargetKind,
} from "../wire/types.js";
import type { GpuPart } from "./gpu-kernel.js";

/** Tells what is running, and why. Times are in milliseconds. */
export interface KernelInfo {
  /** Ends in `:constant=b` where the kernel was chosen for weights that stay the same. */
  readonly workload: string;
  /** Floating-point operations of one run. */
  readonly flops: number;
  /** `runAsync` runs on this; `run` is always of WebAssembly. */
  readonly backend: TargetKind;
  /** The reason why it is not the backend that was asked for or advised; null otherwise. */
  readonly backendReason: string | null;
  /** The zoo advises this target, and says what that rests on. */
  readonly advice: Advice;
  /**
   * `exact` was voted for by devices like this one, `device`, `architecture`, `vendor` and `common`
   * by devices that are less and less like it; `model` is a forecast, `shape` was voted for by
   * devices like this one for a similar workload; `default` is what every device gets.
   */
  readonly level: HitLevel;
  /** So many identities and device classes stand behind `level`; null for the default. */
  readonly grounds: Grounds | null;
  readonly state: EntryState | null;
  readonly version: number | null;
  readonly evidence: Evidence | null;
  readonly candidate: string;
  readonly sha256: string;
  /**
   * The reason why the default runs instead of the zoo's kernel; null when the zoo's kernel runs.
   */
  readonly fallbackReason: string | null;
  /** Threads of `runAsync` on WebAssembly. */
  readonly threads: number;
  /** The reason why there is one thread although more were asked for; null otherwise. */
  readonly singleThreadReason: string | null;
  readonly manifestMs: number;
  /** Fetching, checking and compiling. */
  readonly loadMs: number;
}

/** A kernel that was loaded, where it comes from, and why it is the default; of one target. */
export interface LoadedKernels<Made> {
  readonly made: Made;
  readonly served: ServedKernel;
  readonly used: KernelWire;
  readonly fallbackReason: string | null;
}

/** A kernel that does not run in this thread's memory: what is written stays there from run to run. */
export interface RemoteKernel {
  /** The reason why it runs no more; null while it does. */
  readonly loss: unknown;
  write(name: string, entries: TensorView): void;
  run(): Promise<void>;
  read(): Promise<TensorView>;
  dispose(): void;
}

/** A part in a worker, where the page may not run WebAssembly. */
export interface ScriptPart {
  readonly target: "javascript";
  readonly kernel: RemoteKernel;
}

export type RemotePart = GpuPart | ScriptPart;

/** A kernel is made from these; of interest to this module's neighbours alone. */
export interface KernelParts {
  readonly origin: URL;
  readonly deadline: Deadline;
  readonly arena: Arena;
  readonly threads: Threads;
  readonly entry: ManifestEntry;
  /** Names of inputs that stay the same. */
  readonly constants: readonly string[];
  /** Device classes of the targets. */
  readonly classes: Readonly<Record<TargetKind, string>>;
  readonly failures: Failures;
  /** Null where the zoo has no kernel of it. */
  readonly wasm: LoadedKernels<LoadedKernel> | null;
  /** Null where it is to run on WebAssembly, for `backendReason`. */
  readonly remote: LoadedKernels<RemotePart> | null;
  readonly backendReason: string | null;
  readonly manifestMs: number;
  readonly loadMs: number;
}

export function describe(
  parts: KernelParts,
  remote: KernelParts["remote"],
  reason: string | null,
): KernelInfo {
  const { entry, wasm, threads, manifestMs, loadMs } = parts;
  const running = remote ?? wasm;
  if (running === null) {
    const message = `${entry.workload} has no kernel that runs here. ${reason ?? ""}`;
    throw new KernelZooError("manifest", message.trimEnd());
  }
  const { level, grounds, state, version, evidence } = running.served;
  const { candidate, sha256 } = running.used;
  return {
    workload: entry.workload,
    flops: entry.flops,
    backend: remote === null ? "wasm" : remote.made.target,
    backendReason: reason,
    advice: entry.advice,
    ...{ level, grounds, state, version, evidence, candidate, sha256 },
    fallbackReason: running.fallbackReason,
    // Whether they start is known when the first kernel runs on them.
    get threads() {
      return threads.size;
    },
    get singleThreadReason() {
      return threads.reason;
    },
    manifestMs,
    loadMs,
  };
}
