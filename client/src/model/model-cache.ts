/**
 * Models that are kept on the device, by keys of the page: the graph cache that the WebNN group
 * proposes, for graphs of this engine. Loaded by pages that use it.
 */
import type { Linked } from "../backend/wasm/program.js";
import { type Bytes, fromBase64 } from "../engine/bytes.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { digestOf } from "../engine/sha256.js";
import type { Question } from "../executor/messages.js";
import { startWorkers } from "../executor/worker-client.js";
import { after } from "../timing/clock.js";
import { type GraphFiles, graphFiles } from "../weights/cache-files.js";
import { type WeightSource, written } from "../weights/cache-writer.js";
import {
  GRAPH_VERSION,
  type Graph,
  type GraphOrder,
  type KeptModule,
  type KeptWeight,
  LANGUAGE_CACHES,
  PIECE_BYTES,
  type Place,
  placesOf,
  placesOnGpu,
  type Ways,
} from "../weights/cached-model.js";
import { explained, storageError } from "../weights/storage-error.js";
import { type ModelAnswer, targetOf } from "../wire/model-answer.js";
import type { ServedKernel, TargetKind } from "../wire/types.js";
import { WORKERS } from "../workers.js";
import type { Host } from "./host.js";
import { type AnyModel, Model, type ModelTypes } from "./model.js";
import { type LoadOptions, type Opened, Opener } from "./opener.js";
import type { Fallbacks } from "./planned-calls.js";

export type GraphOptions = LoadOptions;

/** The time after which saving looks again whether runs are under way. */
const REST_MS = 50;
/** So long nothing is saved of a model whose first run is not asked for. */
const PATIENCE_MS = 2000;
/** Letters that one call makes of its arguments. */
const LETTERS = 1 << 12;
/** The lock that a tab holds while it writes, so that one tab of the origin does at a time. */
const LOCK = "kernelzoo-graphs";

const nameOf = (key: string): Promise<string> => digestOf(new TextEncoder().encode(key));

/** Reads a graph; undefined for what another version wrote, or nobody. */
function graphOf(text: string | undefined): Graph | undefined {
  try {
    const graph = JSON.parse(text ?? "") as Graph;
    return graph.version === GRAPH_VERSION ? graph : undefined;
  } catch {
    return undefined;
  }
}

type Kernels = Pick<GraphOrder, "modules" | "texts">;

/** Kernels come from the zoo. */
const NO_KERNELS: Kernels = { modules: null, texts: null };

/**
 * Names the note that a save under a key has succeeded: without it the first visit need not ask the
 * storage, which takes up to a quarter of a second. Where the note is lost, the weights are
 * fetched.
 */
const noteOf = (key: string): string => `graph:${key}`;

const orderOf = (
  { kind }: GraphFiles,
  name: string,
  { weights, costs, queues }: Graph,
  kernels: Kernels,
): GraphOrder => ({ files: kind, name, weights, costs, queues, ...kernels });

/** The graph of `key` for a model whose kernels come from the zoo; null where none is kept. */
export async function kept({ notes }: Host, key: string): Promise<GraphOrder | null> {
  if (notes.read(noteOf(key)) === null) return null;
  try {
    const name = await nameOf(key);
    const files = await graphFiles();
    const graph = graphOf(await files.description(name));
    return graph ? orderOf(files, name, graph, NO_KERNELS) : null;
  } catch {
    return null; // The browser denies it: the network has all of it.
  }
}

export async function listGraphs(): Promise<readonly string[]> {
  const keys: string[] = [];
  try {
    const files = await graphFiles();
    for (const [name, text] of await files.all()) {
      const graph = graphOf(text);
      if (graph === undefined) await files.remove(name);
      else keys.push(graph.key);
    }
    const names = (await caches.keys()).filter((name) => name.startsWith(LANGUAGE_CACHES));
    keys.push(...names.map((name) => name.slice(LANGUAGE_CACHES.length)));
  } catch {
    // A browser that denies the storage keeps nothing.
  }
  return keys.sort();
}

export async function deleteGraph(key: string): Promise<void> {
  try {
    await caches.delete(LANGUAGE_CACHES + key);
    await (await graphFiles()).remove(await nameOf(key));
  } catch {
    // As above.
  }
}

/** Texts are compiled by the driver, as those from the zoo are. */
function textsOf({ modules }: Graph): GraphOrder["texts"] {
  const texts = modules.map(({ bytes, functions }) => {
    const [sha256 = ""] = Object.keys(functions);
    return [sha256, new TextDecoder().decode(fromBase64(bytes))] as const;
  });
  return Object.fromEntries(texts);
}

/** Throws KernelZooError (storage). */
async function linkedOf({ key, modules }: Graph): Promise<readonly Linked[]> {
  try {
    return await Promise.all(
      modules.map(async ({ bytes, functions }) => {
        const module = await WebAssembly.compile(fromBase64(bytes));
        return { module, functions };
      }),
    );
  } catch (cause) {
    const message = `This browser does not run the kernels of graph ${key} any more`;
    throw storageError(`${message}: ${sentence(cause)}. Open the model anew.`, cause);
  }
}

/** Throws KernelZooError (storage). */
const kernelsOf = async (graph: Graph, target: TargetKind): Promise<Kernels> =>
  target === "webgpu"
    ? { modules: null, texts: textsOf(graph) }
    : { modules: await linkedOf(graph), texts: null };

export async function loadGraph<Types extends ModelTypes = AnyModel>(
  host: Host,
  key: string,
  { onProgress: progress = () => undefined, signal, memoryBytes }: GraphOptions = {},
): Promise<Model<Types>> {
  const { forbidden } = host;
  const name = await explained(() => nameOf(key));
  const files = await explained(graphFiles);
  const text = await explained(() => files.description(name));
  const graph = graphOf(text);
  if (graph === undefined) {
    if (text !== undefined) await files.remove(name);
    const why = text === undefined ? "The device keeps no" : "Another version has written";
    throw storageError(`${why} graph ${key}. Open the model anew, and save it.`);
  }
  progress({ phase: "plan", loaded: 1, total: 1 });
  const target = targetOf(graph.answer);
  if (forbidden && target === "wasm") throw new KernelZooError("compile", forbidden);
  // A worker starts while kernels are compiled.
  const starting = workerText(target).then((source) => ({ source, ...startWorkers(source) }));
  try {
    const compiled = kernelsOf(graph, target).catch(async (thrown) => {
      await files.remove(name);
      throw thrown;
    });
    const [kernels, { source, next }] = await Promise.all([compiled, starting]);
    signal?.throwIfAborted();
    const order = {
      check: false,
      graph: orderOf(files, name, graph, kernels),
      ...{ memoryBytes, progress, signal, source },
    };
    const { answer, origin } = graph;
    const opener = new Opener(host, { answer, origin, modules: graph.modules }, order, next);
    const model = new Model<Types>(opener, await opener.open());
    if (answer.plan.axes) (await import("./ranges.js")).serveRanges(model, opener);
    return await completed(model);
  } finally {
    starting.then(({ drop }) => drop()).catch(() => undefined);
  }
}

/** Waits until a model is complete. One that does not become so is disposed of. */
async function completed<Types extends ModelTypes>(model: Model<Types>): Promise<Model<Types>> {
  try {
    await model.complete();
    return model;
  } catch (thrown) {
    await model.dispose();
    throw thrown;
  }
}

/** Returns the answer with the defaults of kernels that were found wrong in their places. */
function withoutWrong(answer: ModelAnswer, fallbacks: Fallbacks): ModelAnswer {
  if (fallbacks.size === 0) return answer;
  const kernels = Object.entries(answer.kernels).map(([workload, served]) => {
    const kernel = fallbacks.has(workload) ? served.fallback : served.kernel;
    return [workload, { ...served, kernel } satisfies ServedKernel] as const;
  });
  return { ...answer, kernels: Object.fromEntries(kernels) };
}

/**
 * Fetches a file as it was when the model was loaded: its hash is that of the answer. Throws
 * KernelZooError (storage) where the file has another.
 */
async function fetched(url: URL, digest: string): Promise<Bytes> {
  const bytes = new Uint8Array(await (await fetch(url)).arrayBuffer());
  if ((await digestOf(bytes)) === digest) return bytes;
  throw storageError(`${url} is not what the model says. A proxy may have changed it.`);
}

async function modulesOf(opener: Opener, answer: ModelAnswer): Promise<readonly KeptModule[]> {
  const { modules } = opener.answered;
  if (opener.answer === answer && modules !== undefined) return modules;
  const kernels = answer.plan.kernels.map((key) => (answer.kernels[key] as ServedKernel).kernel);
  const { kernelFiles } = await import("../backend/wasm/kernel-files.js");
  return Promise.all(
    kernelFiles(answer, kernels).map(async ({ url, sha256: digest, functions }) => {
      const bytes = await fetched(opener.located(url), digest);
      return { bytes: toBase64(bytes), functions };
    }),
  );
}

/** The text of the worker that opens a graph. Whoever saves one loads it: the next time may be offline. */
const workerText = async (target: TargetKind): Promise<string> =>
  (await WORKERS.executor[target === "webgpu" ? target : "wasm"]()).default;

/**
 * Has a worker that knows of storage write its weights itself: from where they lie, without a copy.
 */
async function writtenBy(
  session: Opened["session"],
  asked: Omit<Extract<Question, { type: "write" }>, "type">,
): Promise<readonly KeptWeight[]> {
  const { weights, failure } = await session.ask({ type: "write", ...asked });
  if (weights === undefined) throw new Error(failure);
  return weights;
}

/**
 * Reads the weights of any other worker, which tells them in pieces. All pieces travel in one
 * buffer: a browser gives the memory of others back once there are tens of megabytes of it.
 */
function sourcesOf(session: Opened["session"]): (place: Place) => readonly WeightSource[] {
  let buffer = new ArrayBuffer(PIECE_BYTES);
  return ({ address, bytes }) => {
    const read: WeightSource["read"] = async (from, bytes) => {
      const into = new Uint8Array(buffer, 0, bytes);
      const { piece } = await session.ask({ type: "read", address: address + from, into });
      if (piece.length < bytes) throw new Error("its worker does not tell its weights");
      buffer = piece.buffer;
      return piece;
    };
    return [{ plain: false, bytes, read }];
  };
}

/** The ways of a worker that measured nothing: weights as calls read them, by one thread. */
const unmeasured = (places: readonly Place[]): Ways => ({
  plain: [],
  costs: { readMs: 0, packMs: [], runMs: [] },
  queues: [places.map((_, i) => i)],
});

/** Returns whether the graph that is kept has the kernels of an answer and these weights. */
const isSame = (kept: Graph | undefined, answer: ModelAnswer, places: readonly Place[]): boolean =>
  kept !== undefined &&
  JSON.stringify([kept.answer.kernels, kept.weights.map(({ key }) => key)]) ===
    JSON.stringify([answer.kernels, places.map(({ key }) => key)]);

/**
 * Waits until the first output is there, where one is asked for soon, and no run computes: saving
 * asks the storage, the network and the model's worker for what a first run waits for, too.
 */
async function rested(model: Pick<Model, "running" | "ran">): Promise<void> {
  for (let restedMs = 0; model.running || (!model.ran && restedMs < PATIENCE_MS); ) {
    await after(REST_MS);
    restedMs += REST_MS;
  }
}

/**
 * Keeps a model as the graph of a key; with `anew` even where these very kernels and weights are
 * kept. Throws KernelZooError.
 */
export async function saveGraph<Types extends ModelTypes>(
  { notes }: Pick<Host, "notes">,
  key: string,
  model: Model<Types>,
  anew = true,
): Promise<void> {
  if (!anew) await rested(model);
  const [opener, { session, loaded, fallbacks }] = await model.opened();
  const { answer, target } = opener;
  if (target.target === "javascript" || model.tuning) {
    const why = model.tuning ? "is tuned in this page" : "runs in JavaScript";
    const kept = "models as the zoo has them for wasm and webgpu are kept";
    throw storageError(`${answer.name} ${why}; ${kept}.`);
  }
  const own = withoutWrong(answer, fallbacks);
  const { placement } = loaded;
  const places = placement ? placesOf(own.plan, placement) : placesOnGpu(own.plan);
  const save = async (files: GraphFiles, name: string): Promise<void> => {
    if (!anew && isSame(graphOf(await files.description(name)), own, places)) return;
    await files.remove(name);
    await files.sweep();
    try {
      await workerText(target.target);
      const modules = await modulesOf(opener, own);
      const { ways } = await session.ask({ type: "ways", files: files.kind });
      const { plain, ...planned } = ways ?? unmeasured(places);
      const weights = ways
        ? await writtenBy(session, { files: files.kind, name, plain })
        : await written(await files.writer(name), places, sourcesOf(session), async () => {
            if (model.running) await after(REST_MS);
          });
      const { origin } = opener.answered;
      const graph = { version: GRAPH_VERSION, key, answer: own, origin, modules, weights };
      await files.describe(name, JSON.stringify({ ...graph, ...planned } satisfies Graph));
    } catch (thrown) {
      await files.remove(name);
      throw thrown;
    }
  };
  try {
    const [files, name] = await Promise.all([graphFiles(), nameOf(key)]);
    await navigator.locks.request(LOCK, () => save(files, name));
    notes.write(noteOf(key), "kept");
  } catch (cause) {
    if (cause instanceof KernelZooError) throw cause;
    throw storageError(`Graph ${key} cannot be kept: ${sentence(cause)}`, cause);
  }
}

/** Encodes bytes by the piece, as a browser keeps each letter that a text is put together of. */
function toBase64(bytes: Bytes): string {
  const pieces: string[] = [];
  for (let at = 0; at < bytes.length; at += LETTERS) {
    // Spread, each byte would be a number of its own: megabytes of them for a hundred kilobytes.
    pieces.push(String.fromCharCode.apply(null, bytes.subarray(at, at + LETTERS) as never));
  }
  return btoa(pieces.join(""));
}
