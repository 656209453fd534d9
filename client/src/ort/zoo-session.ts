/** Runs a session on the kernels of a zoo, by the plans of a model that it found by the file. */
import { type InferenceSession, Tensor } from "onnxruntime-common";
import { type Answer, ask } from "../gateway/request.js";
import { type Backend, KernelZoo, KernelZooError, type Model } from "../sdk/index.js";
import type { Schemas } from "../wire/types.js";
import type { NamedZoo } from "./env.js";
import { type GraphPorts, graphPorts } from "./graph-ports.js";
import { weightsByMap } from "./own-weights.js";
import {
  type ChosenPlan,
  chosenPlan,
  type DocumentedPlan,
  type ModelDocument,
  outputDims,
  unfitReason,
} from "./plan-choice.js";
import { type Beside, sourceHashes } from "./source-hashes.js";

type SessionOptions = InferenceSession.SessionOptions;
type Fetches = { readonly [name: string]: Tensor | null };

const TIMEOUT_MS = 10_000;

/** Says why the zoo does not run a model, or a run of it. */
export class Unserved extends Error {}

let opened: { readonly settings: NamedZoo; readonly zoo: Promise<KernelZoo> } | undefined;

/** One zoo for all sessions, until the page tells another one. */
function zooOf(settings: NamedZoo, numThreads: number | undefined): Promise<KernelZoo> {
  if (opened?.settings !== settings) {
    const { url, fallback: _, threads = numThreads || "auto", ...options } = settings;
    opened = { settings, zoo: KernelZoo.open(url, { ...options, threads }) };
  }
  return opened.zoo;
}

/** The target that a page hints at by the providers that it asks for. */
function backendOf({ executionProviders = [] }: SessionOptions): Backend {
  const names = executionProviders.map((provider) =>
    typeof provider === "string" ? provider : provider.name,
  );
  if (names.length === 0) return "auto";
  if (names.every((name) => name === "webgpu")) return "webgpu";
  return names.some((name) => name.startsWith("web")) ? "auto" : "wasm";
}

/** Throws Unserved for what a model of a zoo has not. */
function refuseOptions({
  preferredOutputLocation: place,
  enableGraphCapture,
}: SessionOptions): void {
  const places = typeof place === "string" ? [place] : Object.values(place ?? {});
  if (enableGraphCapture || places.some((location) => location !== "cpu")) {
    throw new Unserved("Outputs of a zoo's models are not left on the GPU.");
  }
}

/** Fetches a file whole. Throws Unserved where its host does not give it. */
export async function downloaded(
  url: string | URL,
  options: RequestInit = {},
): Promise<Uint8Array> {
  const response = await fetch(url, options);
  if (!response.ok) throw new Unserved(`${url} answered ${response.status}.`);
  return new Uint8Array(await response.arrayBuffer());
}

/** External files as the page gave them with the options, each of which is read once. */
function besideOf({ externalData = [] }: SessionOptions): Beside {
  const files = new Map<string, Promise<Uint8Array>>();
  const read: Beside = async (location) => {
    const plain = (path: string) => path.replace(/^\.\//, "");
    for (const file of externalData) {
      const { path, data } = typeof file === "string" ? { path: file, data: file } : file;
      if (plain(path) !== plain(location)) continue;
      if (data instanceof Uint8Array) return data;
      if (data instanceof ArrayBuffer) return new Uint8Array(data);
      if (data instanceof Blob) return new Uint8Array(await data.arrayBuffer());
      if (typeof data === "string") return downloaded(data);
    }
    throw new Unserved(`The weights in ${location} are not among externalData.`);
  };
  return (location) => {
    const file = files.get(location) ?? read(location);
    files.set(location, file);
    return file;
  };
}

function answeredValue<T>(answer: Answer<T>): T {
  if (answer.kind === "ok") return answer.value;
  throw new Unserved(answer.kind === "empty" ? "The zoo answered nothing." : answer.detail);
}

function addressAt({ url }: NamedZoo, path: string): URL {
  const base = new URL(url, globalThis.document?.baseURI);
  if (!base.pathname.endsWith("/")) base.pathname += "/";
  return new URL(`.${path}`, base);
}

/** Asks which model was imported from a file. Throws Unserved where none was. */
async function modelOf(
  settings: NamedZoo,
  file: Uint8Array,
  options: SessionOptions,
): Promise<ModelDocument> {
  const { timeoutMs = TIMEOUT_MS } = settings;
  const { graph, weights } = await sourceHashes(file);
  const [answer, own] = await Promise.all([
    ask<Schemas["ModelsOfGraph"]>(addressAt(settings, `/v1/graphs/${graph}`), {
      signal: AbortSignal.timeout(timeoutMs),
    }),
    weights(besideOf(options)),
  ]);
  const { models } = answeredValue(answer);
  const known = models.find((candidate) => candidate.weights === own);
  if (known !== undefined) return known.model;
  throw new Unserved(
    models.length > 0
      ? "The zoo knows this graph with other weights alone."
      : "The zoo does not know this model: kernelzoo models add FILE --name NAME registers it.",
  );
}

/** The weights of a plan, of the page's own file; undefined where they are to be the zoo's. */
async function ownWeights(
  settings: NamedZoo,
  { original, weights }: DocumentedPlan,
  file: Uint8Array,
  options: SessionOptions,
): Promise<Blob | undefined> {
  if (!original) return undefined;
  try {
    const signal = AbortSignal.timeout(settings.timeoutMs ?? TIMEOUT_MS);
    const map = await downloaded(addressAt(settings, original.url), { signal });
    return await weightsByMap(map, weights.size_bytes, file, besideOf(options));
  } catch {
    // What lacks is only what spares a download.
    return undefined;
  }
}

/** A file whose model the zoo has, before any of it is open. */
export class ZooSession {
  readonly name: string;
  readonly ports: GraphPorts;
  readonly #plans: readonly DocumentedPlan[];
  readonly #open: (plan: DocumentedPlan, ownWeights: boolean) => Promise<Model>;
  /** Plans whose weights the page could not put together. */
  readonly #unlike = new Set<DocumentedPlan>();
  readonly #models = new Map<DocumentedPlan, Promise<Model>>();

  private constructor(
    name: string,
    ports: GraphPorts,
    plans: readonly DocumentedPlan[],
    open: (plan: DocumentedPlan, ownWeights: boolean) => Promise<Model>,
  ) {
    this.name = name;
    this.ports = ports;
    this.#plans = plans;
    this.#open = open;
  }

  /**
   * Finds the model of a file, and opens it where it has one plan; of several the first run opens
   * one. Throws Unserved, an error of the file, and KernelZooError.
   */
  static async open(
    settings: NamedZoo,
    file: Uint8Array,
    options: SessionOptions,
    numThreads: number | undefined,
  ): Promise<ZooSession> {
    refuseOptions(options);
    const ports = graphPorts(file, options.freeDimensionOverrides);
    const zoo = await zooOf(settings, numThreads);
    const { name, plans } = await modelOf(settings, file, options);
    const reasons = plans.map((plan) => unfitReason(ports, plan));
    const served = plans.filter((_, i) => reasons[i] === null);
    const [first] = served;
    if (first === undefined) throw new Unserved(`${name} cannot stand for it. ${reasons[0]}`);
    const backend = settings.backend ?? backendOf(options);
    const session = new ZooSession(name, ports, served, async (plan, own) => {
      const weights = own ? await ownWeights(settings, plan, file, options) : undefined;
      const { dimensions, precision } = plan;
      return zoo.model(name, { dimensions, precision, backend, ...(weights && { weights }) });
    });
    if (served.length === 1) await session.#model(first);
    return session;
  }

  /** Throws Unserved where no plan serves the feeds, and KernelZooError. */
  async run(feeds: InferenceSession.FeedsType, fetches: Fetches): Promise<Record<string, Tensor>> {
    const chosen = this.#chosen(feeds);
    const { plan } = chosen;
    const given = plan.inputs.map(({ name }) => {
      const { data, dims } = feeds[name] as Tensor;
      return [name, { data: data as Float32Array, shape: dims }] as const;
    });
    const outputs = await this.#outputs(plan, Object.fromEntries(given));
    const tensors: Record<string, Tensor> = {};
    for (const port of plan.outputs) {
      const into = fetches[port.name];
      if (into === undefined) continue;
      const data = outputs[port.name] as Float32Array;
      if (into !== null && into.location !== "cpu") {
        throw new Unserved(`The tensor for ${port.name} lies on the GPU.`);
      }
      if (into !== null) (into.data as Float32Array).set(data);
      tensors[port.name] =
        into ?? new Tensor(port.dtype as "float32", data, outputDims(chosen, port));
    }
    return tensors;
  }

  async release(): Promise<void> {
    for (const model of await Promise.allSettled(this.#models.values())) {
      if (model.status === "fulfilled") await model.value.dispose();
    }
  }

  /** Throws Unserved. */
  #chosen(feeds: InferenceSession.FeedsType): ChosenPlan {
    for (const [name, tensor] of Object.entries(feeds)) {
      const port = this.ports.inputs.find((input) => input.name === name);
      if (tensor.location !== "cpu" && tensor.location !== "cpu-pinned") {
        throw new Unserved(`${name} lies on the GPU.`);
      }
      if (!port?.isTensor || port.type !== tensor.type) {
        throw new Unserved(`${this.name} takes no ${name} of ${tensor.type}.`);
      }
    }
    const chosen = chosenPlan(this.#plans, feeds);
    if (chosen !== null) return chosen;
    const shapes = Object.entries(feeds).map(([name, { dims }]) => `${name} ${dims.join("×")}`);
    throw new Unserved(`${this.name} has no plan for ${shapes.join(", ")}.`);
  }

  /** Runs a plan, with the zoo's weights where those of the page's file are others. */
  async #outputs(plan: DocumentedPlan, feeds: Parameters<Model["run"]>[0]) {
    const opening = this.#model(plan);
    try {
      return await (await opening).run(feeds);
    } catch (thrown) {
      const isUnlike = thrown instanceof KernelZooError && thrown.stage === "artifact";
      if (!isUnlike || !plan.original) throw thrown;
      // Of runs that overlap the first opens the other model, and all go on with that.
      if (this.#models.get(plan) === opening) {
        if (this.#unlike.has(plan)) throw thrown;
        this.#unlike.add(plan);
        this.#models.delete(plan);
        // It holds its part of the memory until then.
        await opening.then(
          (model) => model.dispose(),
          () => undefined,
        );
      }
      return await (await this.#model(plan)).run(feeds);
    }
  }

  #model(plan: DocumentedPlan): Promise<Model> {
    const model = this.#models.get(plan) ?? this.#open(plan, !this.#unlike.has(plan));
    this.#models.set(plan, model);
    return model;
  }
}
