/** Opens pages without an engine: what an engine holds is seen beside what these hold. */
import { type Engine, type Network, valuesOf } from "./network.js";

/** Opens a page that has a network's inputs and no engine. */
export async function openEmptyPage(network: Network | Promise<Network>): Promise<Engine> {
  const inputs = await valuesOf((await network).inputs);
  return {
    name: "an empty page",
    threads: 1,
    outputs: {},
    run: async () => inputs,
    dispose: async () => undefined,
  };
}

/** Opens such a page with a worker that does nothing. */
export async function openEmptyWorker(network: Network | Promise<Network>): Promise<Engine> {
  const text = new Blob(["postMessage(null)"], { type: "text/javascript" });
  const worker = new Worker(URL.createObjectURL(text));
  await new Promise((started) => {
    worker.onmessage = started;
  });
  const page = await openEmptyPage(network);
  return { ...page, name: "an empty worker", dispose: async () => worker.terminate() };
}
