/** The adapter, a device of it, and the owner that opens another device after a loss. */
import { KernelZooError, sentence } from "../../engine/error.js";
import { after } from "../../timing/clock.js";
import { deviceDescriptor, gpuFeatures } from "./features.js";

/** A first request starts the browser's GPU process; one that crashed may never answer. */
const LIMIT_MS = 5_000;

/**
 * The adapter that kernels run on; the device id is made from this one too. An adapter makes one
 * device, so each device needs a new one. Throws KernelZooError (profile) where there is none.
 */
export async function requestAdapter(limitMs = LIMIT_MS): Promise<GPUAdapter> {
  const { gpu } = (globalThis.navigator ?? {}) as Partial<NavigatorGPU>;
  if (gpu === undefined) {
    throw new KernelZooError("profile", "This browser has no WebGPU, or not in this page.");
  }
  const request = gpu.requestAdapter({ powerPreference: "high-performance" });
  const adapter = await Promise.race([request, after(limitMs, null)]);
  if (adapter === null) {
    throw new KernelZooError("profile", "WebGPU gives no adapter: the browser blocks this GPU.");
  }
  return adapter;
}

/**
 * A promise may be rejected because of a lost device before `device.lost` says so; wait so long for
 * it.
 */
const NEWS_MS = 100;
const SCOPES = ["out-of-memory", "internal", "validation"] as const;

/** The stage at which an error of a scope is recorded. */
function scopeError(error: GPUError): KernelZooError {
  const { message } = error;
  if (error instanceof GPUOutOfMemoryError) {
    const remedy = "Dispose of other models, or close pages that use it";
    return new KernelZooError(
      "memory",
      `The GPU has no more memory. ${remedy}. (${message})`,
      error,
    );
  }
  const stage = error instanceof GPUValidationError ? "validate" : "run";
  return new KernelZooError(stage, `WebGPU refuses this: ${message}`, error);
}

/**
 * Runs `work` and answers its value or error later; a mapped buffer that is too large is a
 * RangeError.
 */
function attempted<T>(work: () => T): () => T {
  try {
    const value = work();
    return () => value;
  } catch (cause) {
    return () => {
      const stage = cause instanceof RangeError ? "memory" : "run";
      throw new KernelZooError(stage, `WebGPU failed: ${sentence(cause)}`, cause);
    };
  }
}

/**
 * One device until it is lost. Every wait goes through `settled`, so that neither a lost device
 * nor a driver that does not answer can hold its caller for ever.
 */
export class OpenDevice {
  readonly device: GPUDevice;
  readonly features: readonly string[];
  readonly #lost: Promise<never>;
  #giveUp: (why: KernelZooError) => void = () => undefined;
  #loss: KernelZooError | null = null;

  constructor(device: GPUDevice) {
    this.device = device;
    this.features = gpuFeatures(device);
    const lost = device.lost.then(({ message, reason }) => {
      const why = message || reason || "for no reason given";
      this.#loss ??= new KernelZooError("run", `The GPU device was lost: ${why}`);
      throw this.#loss;
    });
    const given = new Promise<never>((_, reject) => {
      this.#giveUp = reject;
    });
    this.#lost = Promise.race([lost, given]);
    this.#lost.catch(() => undefined);
  }

  /** True where a processor plays the GPU; false where the browser does not tell. */
  get isSoftware(): boolean {
    return (this.device as Partial<GPUDevice>).adapterInfo?.isFallbackAdapter ?? false;
  }

  /** Null while the device lives. */
  get loss(): KernelZooError | null {
    return this.#loss;
  }

  /** Throws KernelZooError: run when the device is lost, timeout after `limitMs`. */
  async settled<T>(promise: Promise<T>, limitMs: number): Promise<T> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      const seconds = Math.round(limitMs) / 1000;
      const error = new KernelZooError("timeout", `The GPU did not answer within ${seconds} s.`);
      timer = setTimeout(reject, Math.max(limitMs, 0), error);
    });
    try {
      return await Promise.race([
        promise.catch((thrown) => this.#rejected(thrown)),
        this.#lost,
        late,
      ]);
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Does `work`, which must not wait, and throws what WebGPU finds wrong with it as a
   * KernelZooError: validate, memory or run.
   */
  async scoped<T>(work: () => T, limitMs: number): Promise<T> {
    for (const scope of SCOPES) this.device.pushErrorScope(scope);
    const attempt = attempted(work);
    const popped = SCOPES.map(() => this.device.popErrorScope());
    const errors = await this.settled(Promise.all(popped), limitMs);
    const error = errors.find((caught) => caught !== null);
    if (error) throw scopeError(error);
    return attempt();
  }

  /** Resolves when all that was submitted has run. Throws as `settled`. */
  idle(limitMs: number): Promise<unknown> {
    return this.settled(this.device.queue.onSubmittedWorkDone(), limitMs);
  }

  /** Gives up all that was made with the device; waits for it end with its loss. */
  dispose(): void {
    this.abandon(new KernelZooError("run", "The GPU device was given up."));
    this.device.destroy();
  }

  /**
   * Gives up the device without destroying it, as that would wait for a driver that does not
   * answer.
   */
  abandon(why: KernelZooError): void {
    this.#loss ??= why;
    this.#giveUp(this.#loss);
  }

  async #rejected(thrown: unknown): Promise<never> {
    await Promise.race([this.#lost, after(NEWS_MS)]);
    if (thrown instanceof KernelZooError) throw thrown;
    throw new KernelZooError("run", `WebGPU failed: ${sentence(thrown)}`, thrown);
  }
}

/** Opens a device of the adapter's. Throws KernelZooError (profile) where there is none. */
export async function openDevice(): Promise<OpenDevice> {
  const adapter = await requestAdapter();
  try {
    return new OpenDevice(await adapter.requestDevice(deviceDescriptor(adapter)));
  } catch (cause) {
    throw new KernelZooError("profile", `WebGPU gives no device: ${sentence(cause)}`, cause);
  }
}

/** Owns one device at a time; the one after a loss is another, with nothing on it. */
export class DeviceOwner {
  readonly #open: () => Promise<OpenDevice>;
  #current: Promise<OpenDevice> | null = null;

  constructor(open: () => Promise<OpenDevice> = openDevice) {
    this.#open = open;
  }

  /** The device, opened now where there is none or it was lost. Rejects as `openDevice`. */
  async device(): Promise<OpenDevice> {
    this.#current ??= this.#opening();
    const held = this.#current;
    if ((await held).loss === null) return held;
    // Another caller may have replaced it while this one waited.
    if (this.#current === held) this.#current = this.#opening();
    return this.#current;
  }

  /** Gives up the device and all that was made with it. */
  dispose(): void {
    this.#current?.then(
      (open) => open.dispose(),
      () => undefined,
    );
    this.#current = null;
  }

  #opening(): Promise<OpenDevice> {
    const opening = this.#open();
    opening.catch(() => {
      if (this.#current === opening) this.#current = null;
    });
    return opening;
  }
}
