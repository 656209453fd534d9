/** Entry of the runtime, which a page loads with its first model. */
import type { Host } from "./host.js";
import type { Progress } from "./messages.js";
import { type AnyModel, Model, type ModelTypes } from "./model.js";
import { Opener } from "./opener.js";
import { type Dimensions, requestModel } from "./request.js";

export interface ModelOptions {
  /** What the model leaves open, such as `{ sequence: 128 }`; the first that the zoo has unless told. */
  readonly dimensions?: Dimensions;
  /** Called with numbers while kernels and weights arrive, and while the model is checked. */
  readonly onProgress?: (progress: Progress) => void;
  /** Stops the load; it rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /**
   * Compares the model with its golden outputs at the first load on a device, at the cost of one
   * run; true unless told.
   */
  readonly check?: boolean;
  /**
   * Bytes that all models of the page may take together; half of the device's memory unless told,
   * 2 GiB where that is unknown.
   */
  readonly memoryBytes?: number;
}

/** Rejects with the reason of `signal` as soon as it is aborted. */
const abortion = (signal: AbortSignal | undefined): Promise<never> =>
  new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });

/** Throws KernelZooError; its message says what to do. */
export async function openModel<Types extends ModelTypes = AnyModel>(
  host: Host,
  name: string,
  { dimensions = {}, onProgress: progress = () => undefined, signal, ...rest }: ModelOptions = {},
): Promise<Model<Types>> {
  const answered = await Promise.race([abortion(signal), requestModel(host, name, dimensions)]);
  progress({ phase: "plan", loaded: 1, total: 1 });
  const { check = true, memoryBytes } = rest;
  const opener = new Opener(host, answered, { check, memoryBytes, progress, signal });
  return new Model<Types>(opener, await opener.open());
}
