/** Opens language models. Loaded by pages that ask for one. */
import { KernelZooError } from "../engine/error.js";
import { pageError, spawnRuntime } from "../executor/worker-client.js";
import type { Host } from "../model/host.js";
import { Listeners } from "../model/listeners.js";
import { type LoadOptions, Opener, type Spawn } from "../model/opener.js";
import { type Answered, isFile } from "../model/request.js";
import type { Bundle } from "../sdk/address.js";
import { fresh } from "../sdk/manifest.js";
import type { TuneOptions, TuningEvents } from "../tuning/page-view.js";
import type { Tuned } from "../tuning/tuner.js";
import type { MeasuredTarget } from "../wire/types.js";
import { WORKERS } from "../workers.js";
import { LanguageModel, type Stopping } from "./language-model.js";
import type { KeptLanguage } from "./model-cache.js";
import { measuredTargetOf, Targets } from "./target-choice.js";

/** Options of `zoo.languageModel`. */
export interface LanguageOptions extends Omit<TuneOptions, "runs">, LoadOptions {
  /**
   * The tokens that it has room for. Unless told, it begins with the fewest that the zoo has a plan
   * for, and takes a larger plan when a text needs it, as far as the memory allows.
   */
  readonly contextLength?: number;
  /** Compares the model with its golden logits at the first load on a device; true unless told. */
  readonly check?: boolean;
  /**
   * Keeps the model on the device under this key, with the plans of every context: pages that open it
   * with the key fetch no weights any more, and need no network where they have none. It takes the
   * storage that its files have.
   */
  readonly save?: string;
}

/** Resolves when the model can generate. Throws KernelZooError, or the reason of the signal. */
export async function openModel(
  host: Host,
  name: string,
  options: LanguageOptions = {},
): Promise<LanguageModel> {
  const { save, signal } = options;
  signal?.throwIfAborted();
  const keeping =
    save === undefined ? null : import("./model-cache.js").then((k) => k.KeptLanguage.open(save));
  // A device that keeps nothing has the network.
  const kept = (await keeping?.catch(() => null)) ?? null;
  try {
    return await openWith(host, name, options, keeping, kept);
  } catch (thrown) {
    kept?.dispose();
    throw thrown;
  }
}

interface ListedPlan {
  readonly dimensions: Readonly<Record<string, number>>;
}

/** The plans of a model, as a gateway's `/v1/models/{name}` or a bundle's index lists them. */
async function plansOf({ origin, deadline }: Host, name: string): Promise<readonly ListedPlan[]> {
  const bundled = origin.pathname.endsWith(".json");
  const url = bundled ? origin : new URL(`./v1/models/${encodeURIComponent(name)}`, origin);
  const answer = await fresh(url, deadline);
  if (answer.kind !== "ok") return [];
  const document = JSON.parse(answer.value) as Bundle & { readonly plans?: readonly ListedPlan[] };
  return document.plans ?? document.models?.filter((model) => model.name === name) ?? [];
}

/**
 * The tokens that plans have room for, the fewest first; none where the zoo does not tell them: the
 * request for the model says why.
 */
async function contextsOf(host: Host, name: string): Promise<readonly number[]> {
  const plans = await plansOf(host, name).catch(() => []);
  const contexts = plans.flatMap(({ dimensions: { context } }) => context ?? []);
  return [...new Set(contexts)].sort((a, b) => a - b);
}

/** Opens a model, with what the device keeps of it. Throws as `openModel`. */
async function openWith(
  host: Host,
  name: string,
  { contextLength, check = true, ...options }: LanguageOptions,
  keeping: Promise<KeptLanguage> | null,
  kept: KeptLanguage | null,
): Promise<LanguageModel> {
  const { onProgress: progress = () => undefined, signal, memoryBytes } = options;
  const stopping: Stopping = { signal };
  const several = contextLength === undefined && !isFile(name);
  const served = several ? await contextsOf(host, name) : [];
  const contexts = several && served.length === 0 ? (kept?.contexts ?? []) : served;
  const targets = new Targets(host, name, { progress, signal });
  let offline = false;
  const planned = async (context: number | undefined): Promise<Answered> => {
    try {
      const answered = await targets.planned(context);
      return kept === null ? answered : await kept.fromDevice(answered);
    } catch (thrown) {
      const isAway = thrown instanceof KernelZooError && thrown.stage === "network";
      const answered = isAway ? await kept?.planned(context) : null;
      if (!answered) throw thrown;
      offline = true;
      return targets.taken(answered);
    }
  };
  const answered = await planned(contextLength ?? contexts[0]);
  signal?.throwIfAborted();
  progress({ phase: "plan", loaded: 1, total: 1 });
  const first = check ? "first" : false;
  const order = {
    ...({ role: "decoder", check: first, graph: null, memoryBytes, progress } as const),
    get signal() {
      return stopping.signal;
    },
  };
  const plain: Spawn = (_, source) => spawnRuntime(source);
  const asked = options.tune === "idle";
  const tuned = asked
    ? await tunedOn(measuredTargetOf(answered.answer), host, answered, options, plain)
    : null;
  const opener = new Opener(host, answered, order, tuned?.spawn ?? plain);
  const opened = await opener.open();
  try {
    await opened.session.complete;
  } catch (thrown) {
    opener.close(thrown);
    throw signal?.aborted ? signal.reason : pageError(thrown);
  }
  const larger = { contexts, planned, dispose: () => kept?.dispose() };
  const listeners = new Listeners<TuningEvents>();
  const model = new LanguageModel(opener, opened, larger, stopping, listeners);
  tuned?.attach(model);
  if (keeping !== null) {
    const lengths = contexts.length > 0 ? contexts : [contextLength];
    model.saved = offline ? Promise.resolve() : saved(keeping, targets, lengths);
    model.saved.catch(() => undefined); // The model runs without it.
  }
  return model;
}

/** Keeps the plans of all contexts. Rejects with KernelZooError: network, manifest, storage. */
async function saved(
  keeping: Promise<KeptLanguage>,
  targets: Targets,
  contexts: readonly (number | undefined)[],
): Promise<void> {
  const kept = await keeping;
  const answers = new Map<number | undefined, Answered>();
  for (const context of contexts) answers.set(context, await targets.planned(context));
  await kept.save(answers);
}

async function tunedOn(
  target: MeasuredTarget,
  host: Host,
  answered: Answered,
  options: TuneOptions,
  plain: Spawn,
): Promise<Tuned> {
  const [{ tuned }, model] = await Promise.all([
    import("../tuning/tuner.js"),
    WORKERS.tunedDecoder[target](),
  ]);
  return tuned(host, answered, target, options, plain, model.default);
}
