/** Opens language models. Loaded by pages that ask for one. */
import type { Host } from "../runtime/host.js";
import { Listeners } from "../runtime/listeners.js";
import type { Progress } from "../runtime/messages.js";
import { Opener, type Spawn } from "../runtime/opener.js";
import { type Answered, isFile } from "../runtime/request.js";
import { type RuntimeWorker, spawnRuntime } from "../runtime/session.js";
import type { Tuned } from "../tuning/tuned.js";
import type { TuneOptions, TuningEvents } from "../tuning/tuning.js";
import type { MeasuredTarget } from "../wire/types.js";
import { contextsOf } from "./contexts.js";
import { LanguageModel, type LanguageModel as Model, type Stopping, toldOf } from "./model.js";
import { measuredTargetOf, Targets } from "./targets.js";

export interface LanguageOptions extends Omit<TuneOptions, "runs"> {
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

/** Resolves when the model can generate. Throws KernelZooError, or the reason of the signal. */
export async function openModel(
  host: Host,
  name: string,
  { contextLength, check = true, ...rest }: LanguageOptions = {},
): Promise<Model> {
  const { onProgress: progress = () => undefined, signal, memoryBytes } = rest;
  const stopping: Stopping = { signal };
  signal?.throwIfAborted();
  const several = contextLength === undefined && !isFile(name);
  const contexts = several ? await contextsOf(host, name) : [];
  const targets = new Targets(host, name, { progress, signal });
  const answered = await targets.planned(contextLength ?? contexts[0]);
  signal?.throwIfAborted();
  progress({ phase: "plan", loaded: 1, total: 1 });
  const first = check ? "first" : false;
  const order = {
    ...({ check: first, graph: null, memoryBytes, progress } as const),
    get signal() {
      return stopping.signal;
    },
    get source(): string {
      return targets.sourceOf(opener.answer);
    },
  };
  const plain = (): RuntimeWorker => spawnRuntime(order.source);
  const asked = rest.tune === "idle";
  const tuned = asked
    ? await tunedOn(measuredTargetOf(answered.answer), host, answered, rest, plain)
    : null;
  const spawn: Spawn = (source) => {
    // A GPU that was given up has no kernels to tune.
    return (
      tuned?.spawn(measuredTargetOf(opener.answer) === "webgpu" ? source : undefined) ?? plain()
    );
  };
  const opener = new Opener(host, answered, order, spawn);
  const opened = await opener.open();
  try {
    await opened.session.complete;
  } catch (thrown) {
    opener.close(thrown);
    throw signal?.aborted ? signal.reason : toldOf(thrown);
  }
  const planned = (context: number): Promise<Answered> => targets.planned(context);
  const larger = { contexts, planned };
  const listeners = new Listeners<TuningEvents>();
  const model = new LanguageModel(opener, opened, larger, stopping, listeners);
  tuned?.attach(model);
  return model;
}

async function tunedOn(
  target: MeasuredTarget,
  host: Host,
  answered: Answered,
  options: TuneOptions,
  plain: Spawn,
): Promise<Tuned> {
  const [{ tuned }, { SOURCES }] = await Promise.all([
    import("../tuning/tuned.js"),
    target === "webgpu"
      ? import("../tuning/language/sources.js")
      : import("../tuning/language/wasm/sources.js"),
  ]);
  return tuned(host, answered, target, options, plain, SOURCES);
}
