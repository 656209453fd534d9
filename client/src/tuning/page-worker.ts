import { scriptUrl } from "../engine/script-url.js?own";

/** A worker from a blob, which is of the page's own origin and inherits its policy. */
export function workerOf(source: string, name: string): Worker {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const worker: Worker = new Worker(scriptUrl(url), { name });
  const terminate = worker.terminate.bind(worker);
  worker.terminate = () => {
    terminate();
    // Its threads are loaded from the same address.
    URL.revokeObjectURL(url);
  };
  return worker;
}
