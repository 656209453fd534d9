/** A worker that does nothing, beside which what an engine holds is seen. */
import type { Engine } from "./network.js";

export async function openEmptyWorker(): Promise<Engine> {
  const text = new Blob(["postMessage(null)"], { type: "text/javascript" });
  const worker = new Worker(URL.createObjectURL(text));
  await new Promise((started) => {
    worker.onmessage = started;
  });
  return {
    name: "an empty worker",
    threads: 1,
    outputs: {},
    run: async () => ({}),
    dispose: async () => worker.terminate(),
  };
}
