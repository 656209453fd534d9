/**
 * The least that a page with an engine does before its first output: a worker starts and fetches a file.
 * A run is what a second visit adds to that, so many `bytes` read from a file of the device; the first
 * visit writes them.
 */
import type { FloorTask } from "./floor-worker.js";
import source from "./floor-worker.js?inlined";
import type { Engine, Network } from "./network.js";

export async function openFloor(
  _network: Network | Promise<Network>,
  _threads: number,
  asked = new URLSearchParams(),
): Promise<Engine> {
  const bytes = Number(asked.get("bytes"));
  const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const told = (task: FloorTask): Promise<unknown> =>
    new Promise((resolve) => {
      worker.onmessage = resolve;
      worker.postMessage(task);
    });
  await told({ type: "fetch", url: new URL(asked.get("network") ?? "", location.origin).href });
  return {
    name: "an empty page",
    threads: 1,
    outputs: {},
    run: async () => {
      await told({ type: "read", bytes });
      return {};
    },
    kept: async () => void (await told({ type: "write", bytes })),
    dispose: async () => worker.terminate(),
  };
}
