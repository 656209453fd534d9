/** Entry of the runtime, which a page loads with its first model. */
import type { Check } from "../executor/messages.js";
import { startWorkers } from "../executor/worker-client.js";
import type { Answer } from "../gateway/request.js";
import type { Backend } from "../sdk/backend.js";
import type { TuneOptions } from "../tuning/page-view.js";
import { type Precision, targetOf } from "../wire/model-answer.js";
import { WORKERS } from "../workers.js";
import type { CompileWait } from "./compile-wait.js";
import type { Host } from "./host.js";
import { type AnyModel, Model, type ModelTypes } from "./model.js";
import { type LoadOptions, Opener } from "./opener.js";
import { type Answered, type Dimensions, isFile, requestModel, withWeights } from "./request.js";

/** Options of `zoo.model`. */
export interface ModelOptions extends TuneOptions, LoadOptions {
  /**
   * The dimensions that the model leaves open, such as `{ sequence: 128 }`; the first that the zoo
   * has unless told.
   */
  readonly dimensions?: Dimensions;
  /**
   * `auto`, that of the zoo unless told, takes the target on which devices like this one ran the
   * model's calls in less time; at the first visit WebAssembly, as the GPU is probed when the model is
   * complete. A GPU that fails is replaced by WebAssembly.
   */
  readonly backend?: Backend;
  /**
   * Products multiply these, where the model has plans of both: numbers of `f32`, or bytes (`int8`).
   * `auto`, unless told, takes the one by which devices like this one run the model's calls in less
   * time; `model.plan.precisionReason` says why.
   */
  readonly precision?: Precision | "auto";
  /**
   * By how much outputs of a precision may differ from those of f32, as a share of the largest
   * magnitude, as the import measured it; `model.plan.precisions` has it of each.
   */
  readonly maxError?: number;
  /**
   * The file of weights, where the page has it: it is read in the place of the zoo's if the plan that
   * is served has one of that size, and held to its hashes.
   */
  readonly weights?: Blob;
  /**
   * Compares the model with its golden outputs at the first load on a device, at the cost of one
   * run: once the page wants no other, or with `first` before the model is handed out; true unless
   * told. What is wrong is replaced, and runs after that are right; where default kernels are wrong the
   * model rejects. With `false` nothing is compared.
   */
  readonly check?: Check;
  /**
   * The key under which the model is kept on the device as a graph, with its weights as kernels read
   * them: written once the model is complete and the page wants no run. The next visit need not fetch
   * and prepare them, and `KernelZoo.loadGraph` opens it without the network. They take as much storage
   * as memory.
   */
  readonly save?: string;
}

/** Rejects with the reason of `signal` as soon as it is aborted. */
const abortion = (signal: AbortSignal | undefined): Promise<never> =>
  new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason));
  });

/** An answer without a missing kernel, which is waited for where the zoo compiles it. */
export async function compiled(
  host: Host,
  first: Answered,
  ask: () => Promise<Answered>,
  waiting: CompileWait,
): Promise<Answered> {
  if (first.answer.missing.length === 0) return first;
  return (await import("./compile-wait.js")).compiled(host, first, ask, waiting);
}

/** Starts the first worker while the zoo answers. */
async function workersOf({ threads, forbidden, shares }: Host, saved: boolean) {
  const needsAll = saved || threads.size > 1 || shares;
  const full = needsAll ? await WORKERS.executor.wasm() : null;
  const beside = shares ? full?.besideOf : undefined;
  return { ...startWorkers(full?.default, !forbidden), beside };
}

async function keptUnder(host: Host, key: string) {
  const graphs = await import("./model-cache.js");
  return { graphs, graph: await graphs.kept(host, key) };
}

/**
 * Resolves when runs may come; they wait for their weights. `asked` is as in `requestModel`, the first
 * time. Throws KernelZooError.
 */
export async function openModel<Types extends ModelTypes = AnyModel>(
  host: Host,
  name: string,
  {
    dimensions = {},
    onProgress: progress = () => undefined,
    signal,
    ...choices
  }: ModelOptions = {},
  asked?: Promise<Answer<string>>,
): Promise<Model<Types>> {
  const { save, ...others } = choices;
  const openBranch = (branch: Dimensions) =>
    openModel<Types>(host, name, { ...others, dimensions: branch });
  const { backend = host.backend } = choices;
  const { weights, precision, maxError } = choices;
  const request = async (of: Host, answer?: Promise<Answer<string>>): Promise<Answered> => {
    if (precision === undefined && maxError === undefined) {
      return requestModel(of, name, dimensions, answer);
    }
    const { held } = await import("./target-choice.js");
    return held(choices, (chosen) => requestModel(of, name, dimensions, answer, chosen));
  };
  let first = asked;
  const ask = () => {
    const answer = first;
    first = undefined;
    return request(host, answer);
  };
  const { forbidden } = host;
  const waiting = { progress, signal };
  const patient = async () => compiled(host, await ask(), ask, waiting);
  const onWasm = forbidden
    ? () =>
        WORKERS.executor
          .javascript()
          .then(async (source) => source.inPlace(forbidden, await patient()))
    : patient;
  // A file says itself what it is for.
  const targeted =
    isFile(name) || (backend !== "webgpu" && (backend !== "auto" || host.gpu.kind === "none"))
      ? onWasm()
      : import("./target-choice.js").then((target) =>
          target.chosen(host, backend, onWasm, async (deviceClass) => {
            const askGpu = () => request({ ...host, deviceClass });
            const first = await askGpu();
            // Only a page that asks for the GPU waits for missing kernels; where they do not come,
            // the answer without them goes on.
            if (backend !== "webgpu") return first;
            return compiled(host, first, askGpu, waiting).catch(() => first);
          }),
        );
  const answering = Promise.race([abortion(signal), targeted]);
  answering.catch(() => undefined); // It is awaited when the worker is on its way.
  const { check = true, memoryBytes } = choices;
  const keeping = save === undefined ? null : keptUnder(host, save);
  keeping?.catch(() => undefined);
  const workers = await workersOf(host, save !== undefined);
  try {
    const shaping =
      choices.tune === "idle"
        ? import("../tuning/tuner.js")
        : choices.runs && save === undefined
          ? import("../tuning/few-runs.js")
          : null;
    const [answered, shaper, keptGraph] = await Promise.all([answering, shaping, keeping]);
    progress({ phase: "plan", loaded: 1, total: 1 });
    const target = targetOf(answered.answer);
    const tuned =
      target === "javascript"
        ? null
        : await shaper?.tuned(host, answered, target, choices, workers.next);
    // Workers of a tuner start others themselves.
    const beside = tuned?.spawn ? undefined : workers.beside;
    const order = { check, graph: keptGraph?.graph ?? null, memoryBytes, progress, signal, beside };
    // Of several answers that were asked for, the one that is opened has an address of the file.
    const served = withWeights(tuned?.answered ?? answered, weights);
    const opener = new Opener(host, served, order, tuned?.spawn ?? workers.next);
    const model = new Model<Types>(opener, await opener.open(), openBranch);
    if (answered.answer.plan.axes) (await import("./ranges.js")).serveRanges(model, opener);
    tuned?.attach(model);
    model.saved = keptGraph?.graphs.saveGraph(host, save as string, model, false);
    model.saved?.catch(() => undefined); // The model runs without it.
    return model;
  } finally {
    workers.drop();
  }
}
