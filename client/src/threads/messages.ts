/** What a pool and its threads say to each other. */
import type { Chunking } from "./chunks.js";

export type ToThread =
  | { readonly type: "start"; readonly memory: WebAssembly.Memory; readonly control: number }
  | {
      readonly type: "bind";
      readonly kernel: number;
      readonly module: WebAssembly.Module;
      /** Addresses of tensors and of this thread's own scratch. */
      readonly words: readonly number[];
      readonly chunks: Chunking;
    }
  | { readonly type: "run"; readonly generation: number }
  | { readonly type: "forget"; readonly kernel: number };

/** `done` comes once for each run, from the thread that finished the last chunk. */
export type FromThread = { readonly type: "ready" } | { readonly type: "done" };
