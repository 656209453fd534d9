/**
 * The workers that pages start, by role and target. Each is a text in a file of its own, which a page
 * loads when it first wants one. Two are no part of it, as the files that start them carry their texts:
 * that of a model without threads, and the thread of a single kernel.
 */
import type { Answered } from "./model/request.js";

/** The text of a worker, or what makes it for a model where kernels stand in it. */
export interface WorkerText {
  readonly default: string;
  readonly sourceOf?: (answered: Answered) => Promise<string>;
}

type LoadText = () => Promise<WorkerText>;

export const WORKERS = {
  /** Runs a model. */
  executor: {
    wasm: () => import("./backend/wasm/worker-text.js"),
    webgpu: () => import("./backend/webgpu/worker.js?parts"),
    javascript: () => import("./backend/javascript/worker-text.js"),
  },
  /** Runs a language model. */
  decoder: {
    wasm: () => import("./language/wasm/worker.js?parts"),
    webgpu: () => import("./language/webgpu/worker.js?parts"),
  },
  /** Runs a model whose kernels are swapped meanwhile. */
  tuned: {
    wasm: () => import("./tuning/wasm/model-worker.js?parts"),
    webgpu: () => import("./tuning/webgpu/model-worker.js?parts"),
  },
  /** Runs a language model whose kernels are swapped meanwhile. */
  tunedDecoder: {
    wasm: () => import("./tuning/wasm/decoder-worker.js?parts"),
    webgpu: () => import("./tuning/webgpu/decoder-worker.js?parts"),
  },
  /** Measures candidates for a model. */
  measurer: {
    wasm: () => import("./tuning/wasm/candidate-worker.js?parts"),
    webgpu: () => import("./tuning/webgpu/candidate-worker.js?parts"),
  },
  /** Measures candidates of both targets for the zoo. */
  agent: () => import("./agent/worker.js?parts"),
} satisfies Readonly<Record<string, LoadText | Readonly<Record<string, LoadText>>>>;
