/** The worker of a model with all that only some pages use, and what starts one beside it. */
import type { LoadOrder, ToBeside, WeightsFrom } from "../../executor/messages.js";
import {
  type RuntimeWorker,
  spawnRuntime,
  type WorkerBeside,
} from "../../executor/worker-client.js";
import text from "./worker.js?parts";

/** A worker that receives more bytes of weights than these ends sooner than the model's own. */
const LARGE_BYTES = 30e6;

/**
 * Starts a worker beside a model's, where workers share memory and one is going to be wanted:
 * weights that are not kept are on their way then while the model's worker starts and gives
 * everything a place.
 */
export function besideOf({ answer, graph }: LoadOrder, url: URL): WorkerBeside | null {
  const { plan } = answer;
  const repays = graph ? graph.queues.length > 1 : plan.memory.weights > LARGE_BYTES;
  if (!repays) return null;
  const worker = spawnRuntime(text) as RuntimeWorker & {
    postMessage(message: ToBeside, transfer: Transferable[]): void;
  };
  const { port1, port2 } = new MessageChannel();
  const from: WeightsFrom = graph
    ? { type: "kept", kept: { files: graph.files, name: graph.name } }
    : { type: "file", file: { plan, url: url.href } };
  worker.postMessage({ type: "beside", port: port2, from }, [port2]);
  return { worker, port: port1 };
}

export default text;
