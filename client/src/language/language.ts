/** Opens language models. Loaded by pages that ask for one. */
import type { Host } from "../runtime/host.js";
import type { Progress } from "../runtime/messages.js";
import type { Answered, requestModel } from "../runtime/request.js";
import { contextsOf } from "./contexts.js";
import { LanguageModel, type LanguageModel as Model } from "./model.js";
import source from "./worker.js?inlined";

export interface LanguageOptions {
  /**
   * The tokens that it has room for. Unless told, it begins with the fewest that the zoo has a plan
   * for, and takes a larger plan when a text needs it, as far as the memory allows.
   */
  readonly contextLength?: number;
  /**
   * Called with numbers while kernels and weights arrive, and while the model is checked; again when
   * a larger context is opened.
   */
  readonly onProgress?: (progress: Progress) => void;
  /** Stops the load; it rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Compares the model with its golden logits at the first load on a device; true unless told. */
  readonly check?: boolean;
  /** Bytes that all models of the page may take together; half of the device's memory unless told. */
  readonly memoryBytes?: number;
}

/** States are counted as activations are, so that they are reserved before anything is fetched. */
function withStates(answered: Answered): Answered {
  const { plan } = answered.answer;
  const sizes = (plan.states ?? []).map(({ shape }) => shape.reduce((bytes, n) => bytes * n, 4));
  const activations = sizes.reduce((sum, bytes) => sum + bytes, plan.memory.activations);
  const memory = { ...plan.memory, activations };
  return { ...answered, answer: { ...answered.answer, plan: { ...plan, memory } } };
}

/** What is asked for a context; for what there is where that is undefined. Throws KernelZooError. */
async function requested(
  host: Host,
  request: typeof requestModel,
  name: string,
  context: number | undefined,
): Promise<Answered> {
  const { KernelZooError } = host.tools;
  const deviceClass = host.gpu.kind === "gpu" ? host.gpu.deviceClass : host.deviceClass;
  const asked = { ...host, deviceClass, format: 2 } as const;
  const answered = await request(asked, name, context === undefined ? {} : { context });
  const { plan, missing } = answered.answer;
  if (plan.decoder === undefined) {
    throw new KernelZooError("manifest", `${name} is no language model; open it by zoo.model().`);
  }
  if (missing[0] !== undefined) {
    const text = `The zoo has no kernel of webgpu for ${missing[0]} yet. Try again in a few seconds.`;
    throw new KernelZooError("manifest", text);
  }
  return withStates(answered);
}

/** Resolves when the model can generate. Throws KernelZooError, or the reason of the signal. */
export async function openModel(
  host: Host,
  name: string,
  { contextLength, check = true, ...rest }: LanguageOptions = {},
): Promise<Model> {
  const { onProgress: progress = () => undefined, signal, memoryBytes } = rest;
  const { KernelZooError } = host.tools;
  const { isFile, Opener, requestModel, spawnRuntime } = await import("../runtime/runtime.js");
  // A file says itself what it is for; the worker tells whether there is such a device.
  if (host.gpu.kind === "none" && !isFile(name)) {
    const why = host.gpu.reason ?? "this zoo was opened without it";
    throw new KernelZooError("profile", `Language models run on WebGPU: ${why}`);
  }
  signal?.throwIfAborted();
  const several = contextLength === undefined && !isFile(name);
  const contexts = several ? await contextsOf(host, name) : [];
  const planned = (context: number | undefined): Promise<Answered> =>
    requested(host, requestModel, name, context);
  const answered = await planned(contextLength ?? contexts[0]);
  signal?.throwIfAborted();
  progress({ phase: "plan", loaded: 1, total: 1 });
  const first = check ? "first" : false;
  const order = { check: first, graph: null, memoryBytes, progress, signal, source } as const;
  const opener = new Opener(host, answered, order, spawnRuntime);
  const opened = await opener.open();
  try {
    await opened.session.complete;
  } catch (thrown) {
    opener.close(thrown);
    throw signal?.aborted ? signal.reason : thrown;
  }
  return new LanguageModel(opener, opened, { contexts, planned });
}
