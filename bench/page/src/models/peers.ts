/** The page's side of the peers' workers. */
import type { Engine, Fed, Network, Values } from "./network.js";
import type { FromSession, ToSession } from "./session.js";

type Ran = Extract<FromSession, { type: "ran" }>;

function ask(worker: Worker, question: ToSession): Promise<Ran> {
  return new Promise((resolve, reject) => {
    worker.onerror = ({ message }) => reject(new Error(message || "the worker did not load"));
    worker.onmessage = ({ data }: MessageEvent<FromSession>) => {
      if (data.type === "ran") resolve(data);
      else reject(new Error(data.message));
    };
    worker.postMessage(question);
  });
}

type Arriving = Network | Promise<Network>;

async function opened(worker: Worker, arriving: Arriving, threads: number): Promise<Engine> {
  const network = await arriving;
  const { outputs, name } = await ask(worker, { type: "open", network, threads });
  return {
    name,
    threads,
    outputs,
    run: async (): Promise<Values> => (await ask(worker, { type: "run" })).outputs,
    dispose: async () => worker.terminate(),
  };
}

export function openOnnxRuntime(network: Arriving, threads: number): Promise<Engine> {
  return opened(new Worker("/onnxruntime-session.js", { type: "module" }), network, threads);
}

/** onnxruntime-web with the network's axes left open, for feeds of any extent. */
export async function openOnnxRuntimeOfAnyExtent(network: Network) {
  const worker = new Worker("/onnxruntime-session.js", { type: "module" });
  await ask(worker, { type: "open", network: { ...network, dimensions: {} }, threads: 1 });
  return {
    run: async (feeds: readonly Fed[]) => (await ask(worker, { type: "run", feeds })).outputs,
    dispose: () => worker.terminate(),
  };
}

export function openOnnxRuntimeOnGpu(network: Arriving): Promise<Engine> {
  const script = new URL("onnxruntime-webgpu-session.js", document.baseURI);
  return opened(new Worker(script, { type: "module" }), network, 1);
}

export function openLiteRt(network: Arriving, threads: number): Promise<Engine> {
  return opened(new Worker("/litert-session.js"), network, threads);
}

export function openTensorFlow(network: Arriving, threads: number): Promise<Engine> {
  return opened(new Worker("/tensorflow-session.js", { type: "module" }), network, threads);
}
