/**
 * A kernel in JavaScript, for pages that may not run WebAssembly: a model of one call, in a worker of
 * its own. Loaded by such pages with their first kernel.
 */
import { sourceOf } from "../backend/javascript/worker-text.js";
import { KernelZooError } from "../engine/error.js";
import { align, elementsOf, type TensorView } from "../engine/tensors.js";
import type { Stored } from "../executor/golden-tensors.js";
import type { LoadOrder } from "../executor/messages.js";
import { pageError, spawnRuntime, WorkerClient } from "../executor/worker-client.js";
import { after } from "../timing/clock.js";
import type { ModelAnswer, PlanTensor, PlanWire, PortWire } from "../wire/model-answer.js";
import type { KernelWire, ServedKernel, TensorWire } from "../wire/types.js";
import type { RemoteKernel } from "./info.js";
import type { LoadRequest } from "./load.js";
import type { TimedManifest } from "./manifest.js";

const WAIT_MS = 500;
const TRIES = 40;

/** A manifest without a missing kernel, or the last one: a zoo compiles them for who asks first. */
export async function patientManifest(ask: () => Promise<TimedManifest>): Promise<TimedManifest> {
  for (let tries = 1; ; tries++) {
    const answer = await ask();
    if (answer.manifest.missing.length === 0 || tries === TRIES) return answer;
    await after(WAIT_MS);
  }
}

/**
 * The kernel as a plan has it, whose tensors are of words: bytes of an input lie in them. Throws
 * KernelZooError (manifest) for halves, which no kernel in JavaScript reads.
 */
function inWords(workload: string, kernel: KernelWire): KernelWire {
  const tensors = kernel.tensors.map((tensor): TensorWire => {
    const { name, dtype } = tensor;
    if (dtype === "f16") {
      const message = `${workload} has ${name} of f16, which no kernel in JavaScript takes.`;
      throw new KernelZooError("manifest", message);
    }
    if (dtype !== "i8") return tensor;
    return { ...tensor, dtype: "i32", shape: [Math.ceil(elementsOf(tensor) / 4)] };
  });
  return { ...kernel, tensors };
}

/** The plan of one call. */
function planOf(workload: string, { tensors }: KernelWire): PlanWire {
  let activations = 0;
  const placed = tensors.map(({ dtype, shape }): PlanTensor => {
    const at = activations;
    activations += align(4 * elementsOf({ shape }));
    return { dtype: dtype === "f32" ? "f32" : "i32", shape, at };
  });
  const ports = tensors.map(
    ({ name, shape, dtype }, tensor): PortWire => ({
      ...{ name, shape, tensor },
      dtype: dtype === "f32" ? "float32" : "int32",
    }),
  );
  return {
    ...{ needs: [], model: workload, dimensions: {}, weights: [], chunks: [] },
    inputs: ports.slice(0, -1),
    outputs: ports.slice(-1),
    tensors: placed,
    kernels: [workload],
    calls: [{ kernel: 0, tensors: tensors.map((_, i) => i), label: workload }],
    memory: { weights: 0, activations },
    golden: { sha256: "", inputs: [], outputs: [], tolerance: 0 },
  };
}

/** Owns the worker and the entries of inputs, which travel there and back with each run. */
class ScriptKernel implements RemoteKernel {
  readonly loss = null;
  readonly #names: readonly string[];
  readonly #session: WorkerClient;
  #feeds: readonly Stored[];
  #output: Stored | null = null;

  constructor({ inputs }: PlanWire, session: WorkerClient) {
    this.#names = inputs.map(({ name }) => name);
    this.#session = session;
    this.#feeds = inputs.map((port) => {
      const Entries = port.dtype === "float32" ? Float32Array : Int32Array;
      return new Entries(elementsOf(port));
    });
  }

  write(name: string, entries: TensorView): void {
    const feed = this.#feeds[this.#names.indexOf(name)] as Stored;
    const bytes = entries instanceof Int8Array;
    (bytes ? new Int8Array(feed.buffer) : feed).set(entries);
  }

  async run(): Promise<void> {
    try {
      const { feeds, outputs } = await this.#session.run(this.#feeds);
      this.#feeds = feeds;
      this.#output = outputs[0] ?? null;
    } catch (thrown) {
      throw pageError(thrown);
    }
  }

  async read(): Promise<Float32Array> {
    return this.#output as Float32Array;
  }

  dispose(): void {
    this.#session.end(new Error("The kernel was disposed of."));
  }
}

type Asked = Pick<LoadRequest, "origin" | "entry" | "deviceClass" | "forbidden">;

/**
 * Throws KernelZooError: network, artifact, manifest, run. It says why WebAssembly was not taken, which
 * may be all that the page has to mend.
 */
export async function inJavaScript(
  { origin, entry, deviceClass, forbidden }: Asked,
  served: ServedKernel,
): Promise<RemoteKernel> {
  const { workload } = entry;
  const kernel = inWords(workload, served.kernel);
  const plan = planOf(workload, kernel);
  const answer = {
    ...{ plan, module: null, missing: [], name: workload, device_class: deviceClass },
    kernels: { [workload]: { ...served, kernel } },
    weights: { url: "" },
  } as unknown as ModelAnswer;
  const answered = { answer, origin: origin.href };
  const source = await sourceOf(answered);
  const order: LoadOrder = {
    ...answered,
    ...{ threads: 1, check: false, graph: null, replaced: [] },
  };
  const session = new WorkerClient(order, () => undefined, spawnRuntime(source));
  try {
    await session.complete;
  } catch (thrown) {
    session.end(thrown);
    const error = pageError(thrown);
    if (!(error instanceof KernelZooError) || forbidden === null) throw error;
    throw new KernelZooError(error.stage, `${forbidden} ${error.message}`, thrown);
  }
  return new ScriptKernel(plan, session);
}
