/**
 * Weights in a worker beside the model's: there they are fetched, held to their hashes and packed while
 * the model's worker compiles and computes. Where the page is isolated, both have the model's memory.
 */

import { KernelZooError } from "../engine/error.js";
import type { PlanWire } from "./answer.js";
import { instantiateAll, type Linked } from "./kernels.js";
import type { Failure } from "./messages.js";
import type { Placement } from "./placement.js";
import { streamWeights, type TakeBytes } from "./stream.js";
import type { unpacking } from "./unpacking.js";
import { Arrivals, packer, plainFile, weightSink } from "./weights.js";

/** With fewer bytes of weights a worker costs more than it saves. */
export const PREPARED_BYTES = 32 << 20;

export interface PrepareOrder {
  readonly memory: WebAssembly.Memory;
  readonly placement: Pick<Placement, "weights" | "staging" | "packScratch">;
  readonly plan: PlanWire;
  readonly url: string;
}

/** The order first, and kernels once they are compiled, the ones that pack among them. */
export type ToPreparer =
  | { readonly type: "prepare"; readonly order: PrepareOrder }
  | { readonly type: "kernels"; readonly modules: readonly Linked[] };

export type FromPreparer =
  /** So many weights are in memory, and so many bytes of their file have come. */
  | { readonly type: "progress"; readonly weights: number; readonly bytes: number }
  | { readonly type: "failed"; readonly failure: Failure };

/** What preparation needs of a worker. */
export interface Preparer {
  postMessage(message: ToPreparer): void;
  onmessage: ((event: MessageEvent<FromPreparer>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  terminate(): void;
}

export type Prepare = (
  order: PrepareOrder,
  modules: Promise<readonly Linked[]>,
  post: (message: FromPreparer) => void,
) => Promise<void>;

/**
 * Carries an order out, in the worker beside. `stored` reads weights in fewer bits; workers that are
 * not for them lack it.
 */
export async function prepare(
  { memory, placement, plan, url }: PrepareOrder,
  modules: Promise<readonly Linked[]>,
  post: (message: FromPreparer) => void,
  stored: typeof unpacking = plainFile,
): Promise<void> {
  const arrivals = new Arrivals();
  const sink = modules.then((linked) => {
    const pack = packer(placement, instantiateAll(linked, memory));
    return weightSink(memory, plan.weights, placement, pack, arrivals);
  });
  const chunk = (bytes: number): void => {
    post({ type: "progress", weights: arrivals.count, bytes });
  };
  const plain: TakeBytes = async (offset, bytes) => (await sink)(offset, bytes);
  const { take } = (plan.format === 3 ? stored : plainFile)(plan, plain);
  await streamWeights(url, plan.chunks, take, { chunk });
}

/**
 * Has a worker prepare weights, and counts those that are in memory. Rejects with KernelZooError:
 * network, artifact; run where the worker does not start.
 */
export async function preparedBeside(
  worker: Preparer,
  order: PrepareOrder,
  modules: Promise<readonly Linked[]>,
  arrivals: Arrivals,
  arrived: (bytes: number) => void,
): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      worker.onmessage = ({ data }) => {
        if (data.type === "failed") {
          return reject(new KernelZooError(data.failure.stage, data.failure.message));
        }
        while (arrivals.count < data.weights) arrivals.one();
        arrived(data.bytes);
        if (arrivals.count === order.plan.weights.length) resolve();
      };
      worker.onerror = ({ message }) => reject(new KernelZooError("run", message));
      worker.postMessage({ type: "prepare", order });
      modules.then((linked) => worker.postMessage({ type: "kernels", modules: linked }), reject);
    });
  } finally {
    worker.terminate();
  }
}
