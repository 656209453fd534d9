/** The page's side of onnxruntime-web's worker. */
import type { Engine, Network, Values } from "./network.js";
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

export async function openOnnxRuntime(network: Network, threads: number): Promise<Engine> {
  const worker = new Worker("/session.js", { type: "module" });
  const { outputs, version } = await ask(worker, { type: "open", network, threads });
  return {
    name: `onnxruntime-web ${version}`,
    threads,
    outputs,
    run: async (): Promise<Values> => (await ask(worker, { type: "run" })).outputs,
    dispose: async () => worker.terminate(),
  };
}
