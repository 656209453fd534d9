/**
 * Entry of one thread, inlined into the bundle as text. It takes chunks of the open run until
 * none is left. Then it waits a moment for the next run inside the shared memory, which wakes it
 * sooner than a message would, and goes back to its messages.
 */
import { instantiate, type KernelInstance } from "../engine/instance.js";
import { poster, serveMessages } from "../rpc.js";
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

interface Bound {
  readonly instance: KernelInstance;
  readonly chunks: Chunking;
}

const post = poster<FromThread>();
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
  if (finishChunk(control, chunks.count)) post({ type: "done" });
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

let control: Int32Array;
const kernels = new Map<number, Bound>();
let memory: WebAssembly.Memory;

serveMessages<ToThread>({
  start(message) {
    memory = message.memory;
    control = controlView(memory, message.control);
    post({ type: "ready" });
  },
  bind({ kernel, module, words, chunks }) {
    const instance = instantiate(module, memory, words, chunks.extent);
    kernels.set(kernel, { instance, chunks });
  },
  run({ generation }) {
    // A newer run has a message of its own.
    if (generation === currentRun(control)) serve(control, kernels);
  },
  forget: ({ kernel }) => kernels.delete(kernel),
});
