import { storedNotebook } from "../device/notebook.js";
import { peakOf, readProfile } from "../device/profile.js";
import { Arena } from "../engine/arena.js";
import { KernelZooError } from "../engine/error.js";
import { startThreads, type ThreadCount, type Threads } from "../threads/threads.js";
import type { Kernel } from "./kernel.js";
import { loadKernel } from "./load.js";
import { entryOf, requestManifest, type TimedManifest } from "./manifest.js";
import { constantKey, constantsOf, type InputsOf, type InputViews } from "./names.js";

export interface OpenOptions {
  /** Skips the description and the probe of the device. */
  readonly deviceClass?: string;
  /**
   * Threads of `kernel.runAsync`, 1 unless told. `auto` starts one for each logical core, 8 at
   * the most. In a page that is not cross-origin isolated, or may not start workers, it is 1.
   */
  readonly threads?: ThreadCount;
  /** Aborts requests that are under way. */
  readonly signal?: AbortSignal;
}

export interface KernelOptions {
  /** `fallback` asks for the default kernel, to compare with. */
  readonly use?: "best" | "fallback";
}

export interface ConstantOptions<Names extends PropertyKey> extends KernelOptions {
  /**
   * Inputs that stay the same from run to run, such as weights, with their values. Kernels may
   * keep them packed: a page that does not change its weights is served the fastest of these, one
   * that does the fastest of those that read them as they come.
   */
  readonly constant?: Readonly<Record<Names, ArrayLike<number>>>;
}

function originOf(url: string | URL): URL {
  try {
    return new URL(url);
  } catch (cause) {
    throw new KernelZooError("network", `${url} is no URL; write https://zoo.example`, cause);
  }
}

type Device = Pick<KernelZoo, "deviceClass" | "peakGflops">;

async function deviceOf(told: string | undefined): Promise<Device> {
  if (told !== undefined) return { deviceClass: told, peakGflops: null };
  const { deviceClass, peaks } = await readProfile(storedNotebook());
  return { deviceClass, peakGflops: peakOf(peaks) };
}

/** The workload with constant weights where the page promises them and the zoo has kernels of it. */
function bestKey({ manifest }: TimedManifest, workload: string, promised: readonly string[]) {
  const key = constantKey(workload, promised);
  return manifest.entries.some((entry) => entry.workload === key) ? key : workload;
}

/** Kernels of one zoo for this device, in one shared memory. */
export class KernelZoo {
  readonly deviceClass: string;
  /** Register-only limit of one core in GFLOP/s; null when the device class was given. */
  readonly peakGflops: number | null;
  readonly #origin: URL;
  readonly #signal: AbortSignal | undefined;
  readonly #arena: Arena;
  readonly #threads: Threads;
  readonly #manifests = new Map<string, Promise<TimedManifest>>();

  private constructor(
    origin: URL,
    device: Device,
    arena: Arena,
    threads: Threads,
    signal?: AbortSignal,
  ) {
    this.#origin = origin;
    this.#arena = arena;
    this.#threads = threads;
    this.#signal = signal;
    this.deviceClass = device.deviceClass;
    this.peakGflops = device.peakGflops;
  }

  /**
   * Describes this device: 100 to 250 ms at the first visit, nothing later. Makes no request.
   * Throws KernelZooError: memory where the browser has no shared WebAssembly memory, run for a
   * senseless number of threads.
   */
  static async open(url: string | URL, options: OpenOptions = {}): Promise<KernelZoo> {
    const { deviceClass, threads = 1, signal } = options;
    const arena = new Arena();
    const device = await deviceOf(deviceClass);
    // After the probe, which wants the processor for itself.
    return new KernelZoo(originOf(url), device, arena, await startThreads(arena, threads), signal);
  }

  /**
   * The best kernel of a workload for this device; the default one where it does not work.
   * Throws KernelZooError; its message says what to do.
   */
  async kernel<Key extends string, Constant extends keyof InputsOf<Key> = never>(
    workload: Key,
    options: ConstantOptions<Constant> = {},
  ): Promise<Kernel<Omit<InputsOf<Key>, Constant>>> {
    const { constant = {} } = options;
    const found = await this.#manifest(workload);
    const promised = Object.keys(constant);
    const kernel = await this.#load<Omit<InputsOf<Key>, Constant>>(
      found,
      bestKey(found, workload, promised),
      promised,
      options,
    );
    kernel.setConstants(constant);
    return kernel;
  }

  /** Kernels of several workloads, in order; one request each, all at once. */
  async kernels<Key extends string>(
    workloads: readonly Key[],
    options: KernelOptions = {},
  ): Promise<readonly Kernel<InputsOf<Key>>[]> {
    return Promise.all(workloads.map((workload) => this.kernel(workload, options)));
  }

  /**
   * All kernels of a registered set, by workload, from one request. Workloads that have no
   * kernel yet are absent. Those whose key names constant inputs wait for `setConstants`.
   */
  async set(name: string, options: KernelOptions = {}): Promise<ReadonlyMap<string, Kernel>> {
    const found = await this.#manifest(name);
    const keys = found.manifest.entries.map(({ workload }) => workload);
    const kernels = await Promise.all(
      keys.map((key) => this.#load<InputViews>(found, key, [], options)),
    );
    return new Map(keys.map((key, i) => [key, kernels[i] as Kernel]));
  }

  /** Ends the threads. Kernels can still `run`, but not `runAsync`. */
  dispose(): void {
    if (this.#threads.kind === "pool") this.#threads.pool.dispose();
  }

  /** One request for each name, however often it is asked for; failures are not kept. */
  #manifest(name: string): Promise<TimedManifest> {
    const kept = this.#manifests.get(name);
    if (kept !== undefined) return kept;
    const requested = requestManifest(this.#origin, name, this.deviceClass, this.#signal);
    this.#manifests.set(name, requested);
    requested.catch(() => this.#manifests.delete(name));
    return requested;
  }

  #load<Inputs>(
    { manifest, elapsedMs }: TimedManifest,
    workload: string,
    promised: readonly string[],
    { use = "best" }: KernelOptions,
  ): Promise<Kernel<Inputs>> {
    return loadKernel<Inputs>({
      origin: this.#origin,
      arena: this.#arena,
      threads: this.#threads,
      entry: entryOf(manifest, workload),
      constants: [...new Set([...promised, ...constantsOf(workload)])],
      manifestMs: elapsedMs,
      use,
      signal: this.#signal,
    });
  }
}
