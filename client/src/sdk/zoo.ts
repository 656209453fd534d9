import { isGpuProbed } from "../device/gpu-profile.js";
import { type Hardware, readEngine } from "../device/hardware.js";
import { storedNotebook } from "../device/notebook.js";
import { notedHardware, peakOf, readProfile, usualClass } from "../device/profile.js";
import { Arena, pageArena } from "../engine/arena.js";
import { KernelZooError, type Stage, sentence } from "../engine/error.js";
import { forbiddenReason } from "../engine/features.js";
import { canShare } from "../engine/sharing.js";
import { deadline, gaveUp } from "../gateway/deadline.js";
import { Failures, postReport } from "../gateway/failures.js";
import type { LanguageModel } from "../language/language-model.js";
import type { LanguageOptions } from "../language/opener.js";
import type { Host } from "../model/host.js";
import type { AnyModel, Model, ModelTypes } from "../model/model.js";
import type { GraphOptions } from "../model/model-cache.js";
import type { ModelOptions } from "../model/runtime.js";
import { type ThreadCount, Threads } from "../threads/threads.js";
import type { ManifestEntry } from "../wire/types.js";
import { WORKERS } from "../workers.js";
import { isBundle, zooAddress } from "./address.js";
import {
  BACKENDS,
  type Backend,
  chooseTarget,
  type GpuSide,
  gpuFailure,
  livingGpu,
  openGpu,
} from "./backend.js";
import type { GpuBuffers } from "./gpu-kernel.js";
import type { Kernel } from "./kernel.js";
import { type LoadRequest, loadKernel } from "./load.js";
import {
  entriesOf,
  entryOf,
  fresh,
  requestManifest,
  type Source,
  type TimedManifest,
} from "./manifest.js";
import {
  constantKey,
  constantsOf,
  type InputsOf,
  type InputViews,
  type WorkloadKey,
} from "./names.js";
import { MAX_AGE_MS, notes, pinsOf, signatureError } from "./signature.js";

export interface OpenOptions {
  /**
   * The zoo's public keys, as its `/v1/signing-keys` has them: then a manifest that none of these
   * has signed is refused, and nothing runs that it does not name. Give the next one before the zoo
   * changes it. Without any, artifacts are held to their hashes, and the manifest is believed.
   */
  readonly keys?: readonly string[];
  /**
   * Manifests that were signed longer ago are refused where there are `keys`; 7 days unless told,
   * and 2 at the most for the first that this browser sees. Those of a bundle are of any age unless
   * told.
   */
  readonly maxAgeMs?: number;
  /**
   * The `index` of a bundle's zoo.lock: then this bundle alone is read, and no older or newer one.
   */
  readonly bundle?: string;
  /** Skips the description and the probe of the device. */
  readonly deviceClass?: string;
  /**
   * Threads of `kernel.runAsync` and of models, 1 unless told. `auto` starts one for each logical core,
   * 8 at the most. In a page that is not cross-origin isolated, or may not start workers, it is 1.
   */
  readonly threads?: ThreadCount;
  /**
   * Kernels run on this: `auto`, the zoo's advice for each workload, unless told. Where there is no
   * WebGPU it is WebAssembly, and `kernel.info` says why. With `javascript` they run as they do
   * where the page may not run WebAssembly.
   */
  readonly backend?: Backend;
  /** The page's own device for WebGPU, so that its buffers can be shared; it stays the page's. */
  readonly device?: GPUDevice;
  /** Longest time of one request; 10 s unless told. */
  readonly timeoutMs?: number;
  /** Aborts requests that are under way. What waits for them rejects with its reason. */
  readonly signal?: AbortSignal;
}

export interface KernelOptions {
  /** `fallback` asks for the default kernel, to compare with. */
  readonly use?: "best" | "fallback";
  /** The page's own buffers for some tensors on WebGPU, such as another kernel's output. */
  readonly buffers?: GpuBuffers;
  /**
   * Runs the kernel and the default once each on the same inputs before it is handed out, and
   * loads the default where their outputs differ. Costs two runs; false unless told.
   */
  readonly verify?: boolean;
}

export interface ConstantOptions<Names extends PropertyKey> extends KernelOptions {
  /**
   * Inputs that stay the same from run to run, such as weights, with their values. Kernels may
   * keep them packed: a page that does not change its weights is served the fastest of these, one
   * that does the fastest of those that read them as they come.
   */
  readonly constant?: Readonly<Record<Names, ArrayLike<number>>>;
}

const TIMEOUT_MS = 10_000;
/** A service worker loads no further code, such as that of probes and threads. */
const IS_SERVICE_WORKER = "ServiceWorkerGlobalScope" in globalThis;

/** The names of options, by what takes them, as `OptionNames` of the tests has them, too. */
const OPTIONS = {
  "KernelZoo.open": "keys maxAgeMs bundle deviceClass threads backend device timeoutMs signal",
  "zoo.kernel": "use buffers verify constant",
  "zoo.set": "use buffers verify",
  "zoo.loadGraph": "onProgress signal memoryBytes",
  "zoo.languageModel":
    "onProgress signal memoryBytes check tune budgetMs contribute contextLength save",
  "zoo.model":
    "onProgress signal memoryBytes check tune budgetMs contribute dimensions backend precision maxError save runs weights",
};

type Fits = (value: unknown) => boolean;

const among =
  (...values: readonly unknown[]): Fits =>
  (value) =>
    values.includes(value);
const from =
  (least: number, most = Infinity): Fits =>
  (value) =>
    typeof value === "number" && value >= least && value <= most;
const isObject: Fits = (value) => typeof value === "object" && value !== null;
const isText: Fits = (value) => typeof value === "string" && value !== "";
const isBoolean = among(true, false);

/**
 * The values that options may have, as `EXPECTED` of the refusals has them in words. The keys and
 * the threads of a zoo are looked at where they are read.
 */
const VALUES: Readonly<Record<string, Fits>> = {
  ...{ bundle: isText, save: isText, use: among("best", "fallback"), tune: among("idle", "off") },
  ...{ backend: among(...BACKENDS), check: among(true, false, "first"), verify: isBoolean },
  ...{ maxAgeMs: from(0), budgetMs: from(0), memoryBytes: from(1), runs: from(1) },
  ...{ contextLength: from(1), timeoutMs: from(1, 2 ** 31 - 1) },
  ...{ device: isObject, buffers: isObject, constant: isObject },
  deviceClass: (value) => /^[\da-f]{16}:r\d+-[01]+:(wasm|webgpu|javascript)/.test(`${value}`),
  dimensions: (value) => isObject(value) && Object.values(value as object).every(Number.isFinite),
  contribute: (value) =>
    isBoolean(value) || isText((value as { readonly application?: unknown } | null)?.application),
  onProgress: (value) => typeof value === "function",
  signal: (value) => isBoolean((value as Partial<AbortSignal> | null)?.aborted),
  weights: (value) => value instanceof Blob,
};

/**
 * Rejects with KernelZooError (run) for a misspelt option, for one that has no such value, for
 * options that are no object, and for a `name` of a workload, a set or a model that is no text.
 */
async function refuseMisuse(
  where: keyof typeof OPTIONS,
  options: object = {},
  name: unknown = where,
): Promise<void> {
  const known = OPTIONS[where].split(" ");
  const unfit = Object.entries(options ?? {}).find(
    ([option, value]) =>
      !known.includes(option) || (value !== undefined && VALUES[option]?.(value) === false),
  );
  if (isText(name) && isObject(options) && unfit === undefined) return;
  const { misuse } = await import("./refusals.js");
  throw new KernelZooError("run", misuse(where, name, options, known, unfit));
}

/** Throws KernelZooError (run) where there are no workers: in Node, in service workers, in worklets. */
function refuseWithoutWorkers(): void {
  if (globalThis.Worker !== undefined) return;
  const message = "Models run in workers: open them in a page.";
  throw new KernelZooError("run", message);
}

/**
 * Resolves to what `work` gives. Whatever else it throws becomes a KernelZooError that begins with
 * `what`; an abort by the page stays what it is.
 */
async function explained<T>(
  work: () => Promise<T>,
  stage: Stage,
  what: string,
  ...signals: readonly (AbortSignal | undefined)[]
): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    const isReason = signals.some((signal) => signal?.aborted && signal.reason === thrown);
    if (thrown instanceof KernelZooError || isReason || signals.some(gaveUp)) throw thrown;
    throw new KernelZooError(stage, `${what}: ${sentence(thrown)}`, thrown);
  }
}

/** Throws KernelZooError: network, signature. */
function sourceOf(url: string | URL, options: OpenOptions): Source {
  const { keys, maxAgeMs, bundle, timeoutMs = TIMEOUT_MS, signal } = options;
  const origin = zooAddress(url);
  if (bundle !== undefined && !isBundle(origin)) {
    throw signatureError(`${origin} is no bundle.json, which a page could pin.`);
  }
  const usual = keys === undefined || isBundle(origin) ? null : MAX_AGE_MS;
  return {
    origin,
    pins: pinsOf(keys),
    maxAgeMs: maxAgeMs ?? usual,
    bundle,
    deadline: deadline(timeoutMs, signal),
  };
}

interface AskingDevice {
  readonly deviceClass: string;
  /** Null when the device class was given. */
  readonly hardware: Hardware | null;
  readonly gpu: GpuSide;
}

/** The id of the device in a class. */
const idOf = (deviceClass: string): string => deviceClass.split(":")[0] ?? "";

const NO_GPU: GpuSide = { kind: "none", reason: null };

/** All pages without WebAssembly are of one class. */
const PLAIN = "0000000000000000:r0-0:javascript";

/** Stands where kernels of WebAssembly, of which there are none, would have theirs. */
const NO_MEMORY = {} as WebAssembly.Memory;

/** A file of kernels says itself what it is for. */
const ANY_DEVICE: AskingDevice = { deviceClass: "", hardware: null, gpu: NO_GPU };

/** A zoo is made from these. */
interface ZooParts extends Source {
  readonly arena: Arena;
  readonly threads: Threads;
  readonly backend: Backend;
  /** The reason why JavaScript runs in place of WebAssembly; null where WebAssembly may run. */
  readonly forbidden: string | null;
  readonly failures: Failures;
  readonly signal: AbortSignal | undefined;
  /** The page told this of its device. */
  readonly given: Pick<OpenOptions, "deviceClass" | "device">;
}

/**
 * The entry with constant weights where the page promises them and the zoo has kernels of it; the
 * plain one where that alone has a kernel for the GPU that is to run it.
 */
async function bestEntry(
  { manifest }: TimedManifest,
  workload: string,
  promised: readonly string[],
  backend: Backend,
  gpu: GpuSide,
): Promise<ManifestEntry> {
  const [plain, constant] = [workload, constantKey(workload, promised)].map((key) =>
    manifest.entries.find((entry) => entry.workload === key),
  );
  if (constant === undefined) return entryOf(manifest, workload);
  const onGpu = plain !== undefined && chooseTarget(backend, plain, gpu).target === "webgpu";
  return onGpu && constant.webgpu === null ? plain : constant;
}

const graphs = () => import("../model/model-cache.js");
const script = () => import("./javascript-kernel.js");

const inJavaScript: Required<LoadRequest>["inJavaScript"] = async (request, served) =>
  (await script()).inJavaScript(request, served);

/** Kernels of one zoo for this device, in one shared memory. */
export class KernelZoo {
  readonly #parts: ZooParts;
  readonly #manifests = new Map<string, Promise<TimedManifest>>();
  #deviceClass: string | null;
  #peakGflops: number | null = null;
  #gpu: GpuSide = NO_GPU;
  #opening: Promise<GpuSide> | null = null;
  #described: Promise<AskingDevice> | null = null;

  /** Null until a kernel is asked for: a page that runs a model alone is not probed before it runs. */
  get deviceClass(): string | null {
    return this.#deviceClass;
  }

  /** The class of its GPU; null where WebGPU is not used, for the reason that kernels tell. */
  get gpuDeviceClass(): string | null {
    return this.#gpu.kind === "gpu" ? this.#gpu.deviceClass : null;
  }

  /**
   * Register-only limit of one core in GFLOP/s; null until a kernel is asked for, and when the device
   * class was given.
   */
  get peakGflops(): number | null {
    return this.#peakGflops;
  }

  /** The rate of the whole GPU, as it was probed; null where WebGPU is not used. */
  get gpuPeakGflops(): number | null {
    return this.#gpu.kind === "gpu" ? this.#gpu.peakGflops : null;
  }

  /** The reason why this tab does not use its GPU any more; null while the GPU works. */
  get gpuFailure(): string | null {
    return gpuFailure();
  }

  private constructor(parts: ZooParts) {
    this.#parts = parts;
    this.#deviceClass = parts.given.deviceClass ?? null;
  }

  /**
   * Makes no request: the first kernel describes this device, in 100 to 250 ms at the first visit and
   * up to a second more where there is WebGPU. `url` is a gateway's, with or without a path, or that
   * of the `bundle.json` of a bundle; it may be relative to the page. Where the page may not run
   * WebAssembly, models and kernels run in JavaScript, and kernels by `runAsync` alone. Throws
   * KernelZooError: network for what is no address, signature for keys that are none, memory where the browser has no
   * shared WebAssembly memory, run for options that are none or have no such value.
   */
  static async open(url: string | URL, options: OpenOptions = {}): Promise<KernelZoo> {
    await refuseMisuse("KernelZoo.open", options);
    const source = sourceOf(url, options);
    const { threads: asked = 1, backend = "auto", signal } = options;
    const forbidden = backend === "javascript" ? "It was asked for." : forbiddenReason();
    const arena = forbidden ? new Arena(NO_MEMORY) : pageArena();
    const threads = new Threads(arena, forbidden ? 1 : asked);
    const failuresUrl = new URL("./v1/failures", source.origin);
    const failures = new Failures((report) => postReport(failuresUrl, report));
    const parts = { arena, threads, backend, forbidden, failures, signal, given: options };
    return new KernelZoo({ ...source, ...parts });
  }

  /** Describes this device once. Throws KernelZooError (profile). */
  #device(): Promise<AskingDevice> {
    this.#described ??= explained(
      async () => {
        const { forbidden, given } = this.#parts;
        if (forbidden) return { deviceClass: PLAIN, hardware: null, gpu: NO_GPU };
        const { deviceClass } = given;
        if (deviceClass !== undefined) {
          return { deviceClass, hardware: null, gpu: await this.#openGpu() };
        }
        if (IS_SERVICE_WORKER) return this.#unprobed(null);
        const { peaks, ...device } = await readProfile(storedNotebook());
        this.#deviceClass = device.deviceClass;
        this.#peakGflops = peakOf(peaks);
        // After the probe, which wants the processor for itself.
        return { ...device, gpu: await this.#openGpu() };
      },
      "profile",
      "This device cannot be described",
      this.#parts.signal,
    );
    this.#described.catch(() => {
      this.#described = null;
    });
    return this.#described;
  }

  /**
   * Describes the device as far as a model needs it: a file is for any device, and a device that
   * was not probed has the usual class. Where nothing of the GPU is known, and nothing `needsGpu`,
   * no GPU is waited for.
   */
  async #deviceOfModel(name: string, needsGpu: boolean): Promise<AskingDevice> {
    if (name.endsWith(".json")) return ANY_DEVICE;
    if (this.#parts.forbidden) {
      return { deviceClass: PLAIN, hardware: null, gpu: await this.#openGpu() };
    }
    if (this.#described !== null || this.#parts.given.deviceClass !== undefined) {
      return this.#device();
    }
    return this.#unprobed(needsGpu ? this.#openGpu() : null);
  }

  /** A device that was not probed has the usual class, and a GPU where one `opens` or is known. */
  async #unprobed(opens: Promise<GpuSide> | null): Promise<AskingDevice> {
    const notes = storedNotebook();
    const [hardware, deviceClass] = await Promise.all([notedHardware(notes), usualClass(notes)]);
    const device = { engine: readEngine(), deviceId: idOf(deviceClass) };
    const gpu = opens ?? (isGpuProbed(notes, device) ? this.#openGpu() : NO_GPU);
    return { hardware, deviceClass, gpu: await gpu };
  }

  readonly #openGpu = async (): Promise<GpuSide> => {
    const { backend, given } = this.#parts;
    this.#opening ??= (async () => {
      const own = given.deviceClass ?? (await usualClass(storedNotebook()));
      return openGpu(backend, idOf(own), given.device);
    })();
    this.#gpu = await this.#opening;
    return livingGpu(this.#gpu);
  };

  /**
   * The best kernel of a workload for this device; the default one where it does not work.
   * Throws KernelZooError; its message says what to do.
   */
  async kernel<Key extends string, Constant extends keyof InputsOf<Key> = never>(
    workload: WorkloadKey<Key>,
    options: ConstantOptions<Constant> = {},
  ): Promise<Kernel<Omit<InputsOf<Key>, Constant>>> {
    await refuseMisuse("zoo.kernel", options, workload);
    const { constant = {} } = options;
    const promised = Object.keys(constant);
    const kernel = await this.#explained(async () => {
      const device = await this.#device();
      const answer = await this.#manifest(workload, device);
      const entry = await bestEntry(
        answer,
        workload,
        promised,
        this.#parts.backend,
        livingGpu(device.gpu),
      );
      return this.#load<Omit<InputsOf<Key>, Constant>>(device, answer, entry, promised, options);
    });
    kernel.setConstants(constant);
    return kernel;
  }

  /** Kernels of several workloads, in order; one request each, all at once. */
  async kernels<Key extends string>(
    workloads: readonly WorkloadKey<Key>[],
    options: KernelOptions = {},
  ): Promise<readonly Kernel<InputsOf<Key>>[]> {
    return Promise.all(workloads.map((workload) => this.kernel<Key>(workload, options)));
  }

  /**
   * All kernels of a registered set, by workload, from one request. Workloads that have no
   * kernel yet are absent. Those whose key names constant inputs wait for `setConstants`.
   */
  async set(name: string, options: KernelOptions = {}): Promise<ReadonlyMap<string, Kernel>> {
    await refuseMisuse("zoo.set", options, name);
    return this.#explained(async () => {
      const device = await this.#device();
      const answer = await this.#manifest(name, device);
      const entries = entriesOf(answer.manifest, name);
      const kernels = await Promise.all(
        entries.map((entry) => this.#load<InputViews>(device, answer, entry, [], options)),
      );
      return new Map(entries.map(({ workload }, i) => [workload, kernels[i] as Kernel]));
    });
  }

  /**
   * A network on this zoo's kernels, in a worker of its own. `name` is a model of the zoo, or the
   * address of such an answer on any static host: it ends in `.json` and may be relative to the
   * page. The runtime is loaded with the first model. Throws KernelZooError: network, manifest,
   * signature, artifact, memory, compare; and the reason of the signal.
   */
  async model<Types extends ModelTypes = AnyModel>(
    name: string,
    options?: ModelOptions,
  ): Promise<Model<Types>> {
    await refuseMisuse("zoo.model", options, name);
    return this.#opened(name, options?.signal, () => this.#model<Types>(name, options));
  }

  async #model<Types extends ModelTypes>(
    name: string,
    options: ModelOptions | undefined,
  ): Promise<Model<Types>> {
    // What the runtime is going to ask for comes beside it, not after it.
    void Promise.allSettled([
      canShare() && WORKERS.executor.wasm(),
      options?.save !== undefined && import("../model/model-cache.js"),
    ]);
    const asked = name.endsWith(".json") ? this.#file(name) : undefined;
    // A page that tunes stays long enough for a GPU to repay its probe.
    const needsGpu =
      options?.tune === "idle" || (options?.backend ?? this.#parts.backend) === "webgpu";
    asked?.catch(() => undefined); // It is awaited when the runtime has come.
    const [{ openModel }, device] = await Promise.all([
      import("../model/runtime.js"),
      this.#deviceOfModel(name, needsGpu),
    ]);
    const model = await openModel<Types>(this.#host(device), name, options, asked);
    // The next visit asks with what is measured now.
    if (device !== ANY_DEVICE)
      model
        .complete()
        .then(() => this.#device())
        .catch(() => undefined);
    return model;
  }

  /**
   * A model that generates tokens in a worker of its own: on the GPU, or on WebAssembly where there is
   * none. `name` is as in `model`. It resolves when the model can generate, and its code is loaded with
   * the first one. Throws KernelZooError as `model` does; and the reason of the signal.
   */
  async languageModel(name: string, options?: LanguageOptions): Promise<LanguageModel> {
    await refuseMisuse("zoo.languageModel", options, name);
    return this.#opened(name, options?.signal, async () => {
      const { openModel } = await import("../language/opener.js");
      return openModel(this.#host(await this.#deviceOfModel(name, true)), name, options);
    });
  }

  /** Keys of the graphs that this device keeps for pages of this origin; none that is stale. */
  async listGraphs(): Promise<readonly string[]> {
    return (await graphs()).listGraphs();
  }

  /**
   * A model that was saved under `key`, without a request: its kernels and weights are on the device. It
   * resolves when all of it is in memory. Rejects with KernelZooError (storage) where there is no such
   * graph any more: a browser that needs room removes what it keeps for an origin, and what another
   * version of the SDK has written, or a browser that cannot run its kernels meets, is removed. Open the
   * model by `model` then.
   */
  async loadGraph<Types extends ModelTypes = AnyModel>(
    key: string,
    options?: GraphOptions,
  ): Promise<Model<Types>> {
    await refuseMisuse("zoo.loadGraph", options, key);
    return this.#opened(key, options?.signal, async () => {
      return (await graphs()).loadGraph<Types>(this.#host(ANY_DEVICE), key, options);
    });
  }

  /**
   * Keeps a model that is complete in place of what `key` stands for. Weights are read from its memory,
   * or its GPU's, and written by the mebibyte. Rejects with KernelZooError (storage) where the browser
   * denies it or has no room; nothing is kept under `key` then.
   */
  async saveGraph<Types extends ModelTypes>(key: string, model: Model<Types>): Promise<void> {
    await (await graphs()).saveGraph(this.#host(ANY_DEVICE), key, model);
  }

  /** Removes a graph, if there is one. Models that were opened from it go on. */
  async deleteGraph(key: string): Promise<void> {
    await (await graphs()).deleteGraph(key);
  }

  /**
   * Resolves to what `open` gives, of whatever stands under a name. Throws KernelZooError, or the
   * reason of `signal`.
   */
  async #opened<T>(
    name: string,
    signal: AbortSignal | undefined,
    open: () => Promise<T>,
  ): Promise<T> {
    refuseWithoutWorkers();
    return explained(open, "run", `${name} cannot be opened`, signal, this.#parts.signal);
  }

  async #file(name: string): ReturnType<typeof fresh> {
    return fresh(new URL(name, globalThis.document?.baseURI), this.#parts.deadline);
  }

  #host(device: AskingDevice): Host {
    const gpu = livingGpu(device.gpu);
    const shares = canShare();
    return { ...this.#parts, ...device, gpu, openGpu: this.#openGpu, shares, notes };
  }

  #explained<T>(work: () => Promise<T>): Promise<T> {
    const { origin, signal } = this.#parts;
    return explained(work, "manifest", `What ${origin} answered cannot be used`, signal);
  }

  /** Ends the threads and gives up the GPU. Kernels can still `run`, but not `runAsync`. */
  dispose(): void {
    this.#parts.threads.dispose();
    this.#opening?.then((gpu) => gpu.kind === "gpu" && gpu.close());
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** One request for each name, one for a bundle, however often; failures are not kept. */
  #manifest(asked: string, { deviceClass, hardware, gpu }: AskingDevice): Promise<TimedManifest> {
    const name = isBundle(this.#parts.origin) ? "" : asked;
    const kept = this.#manifests.get(name);
    if (kept !== undefined) return kept;
    const deviceClasses = [deviceClass, ...(gpu.kind === "gpu" ? [gpu.deviceClass] : [])];
    const ask = () => requestManifest(this.#parts, name, { deviceClasses, hardware });
    const requested = this.#parts.forbidden ? script().then((s) => s.patientManifest(ask)) : ask();
    this.#manifests.set(name, requested);
    requested.catch(() => this.#manifests.delete(name));
    return requested;
  }

  #load<Inputs>(
    device: AskingDevice,
    { elapsedMs }: TimedManifest,
    entry: ManifestEntry,
    promised: readonly string[],
    { use = "best", buffers, verify = false }: KernelOptions,
  ): Promise<Kernel<Inputs>> {
    const constants = [...new Set([...promised, ...constantsOf(entry.workload)])];
    const request = { entry, constants, manifestMs: elapsedMs, use, buffers, verify };
    const gpu = livingGpu(device.gpu);
    return loadKernel<Inputs>({ ...this.#parts, ...device, ...request, gpu, inJavaScript });
  }
}
