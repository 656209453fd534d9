/**
 * Entry of one thread, inlined into the bundle as text. It takes chunks of the open run until
 * none is left. Then it waits a moment for the next run inside the shared memory, which wakes it
 * sooner than a message would, and goes back to its messages.
 */
import { instantiate, type KernelInstance } from "../engine/instance.js";
import {
  awaitRun,
  type Chunking,
  controlView,
  currentKernel,
  currentRun,
  type FromThread,
  fail,
  finishChunk,
  rangeOf,
  type ToThread,
  takeChunk,
} from "./chunks.js";

/** The worker's global scope, which TypeScript's DOM library does not describe. */
interface WorkerScope {
  postMessage(message: FromThread): void;
  onmessage: ((event: { readonly data: ToThread }) => void) | null;
}

interface Bound {
  readonly instance: KernelInstance;
  readonly chunks: Chunking;
}

const scope = globalThis as unknown as WorkerScope;
/** A thread waits longer than a page takes between two kernels of one model. */
const LINGER_MS = 4;
/** Messages are looked at this often even when runs follow each other closely. */
const LONGEST_STRETCH_MS = 50;

function runChunk(control: Int32Array, { instance, chunks }: Bound, chunk: number): void {
  try {
    instance.run(...rangeOf(chunks, chunk));
  } catch {
    fail(control);
  }
  if (finishChunk(control, chunks.count)) scope.postMessage({ type: "done" });
}

function work(control: Int32Array, kernels: ReadonlyMap<number, Bound>): void {
  const countOf = (kernel: number): number => kernels.get(kernel)?.chunks.count ?? 0;
  for (;;) {
    const taken = takeChunk(control, countOf);
    const bound = taken && kernels.get(taken.kernel);
    if (bound === undefined) return;
    runChunk(control, bound, taken?.chunk ?? 0);
  }
}

/**
 * Runs chunks until no new run comes. A kernel that this thread does not know arrives with a later
 * message.
 */
function serve(control: Int32Array, kernels: ReadonlyMap<number, Bound>): void {
  const until = performance.now() + LONGEST_STRETCH_MS;
  for (let awake = true; awake && performance.now() < until; ) {
    const seen = currentRun(control);
    work(control, kernels);
    awake = kernels.has(currentKernel(control)) && awaitRun(control, seen, LINGER_MS);
  }
}

function thread(memory: WebAssembly.Memory, address: number): (message: ToThread) => void {
  const control = controlView(memory, address);
  const kernels = new Map<number, Bound>();
  return (message) => {
    switch (message.type) {
      case "bind": {
        const { kernel, module, words, chunks } = message;
        const instance = instantiate(module, memory, words, chunks.extent);
        return void kernels.set(kernel, { instance, chunks });
      }
      case "run":
        // A newer run has a message of its own.
        if (message.generation === currentRun(control)) serve(control, kernels);
        return;
      case "forget":
        return void kernels.delete(message.kernel);
      case "start":
        return;
      default:
        message satisfies never;
    }
  };
}

let take: ((message: ToThread) => void) | null = null;

scope.onmessage = ({ data }) => {
  if (data.type !== "start") return take?.(data);
  take = thread(data.memory, data.control);
  scope.postMessage({ type: "ready" });
};
