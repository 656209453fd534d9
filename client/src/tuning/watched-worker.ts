/**
 * Starts and watches the worker of a model that is tuned: whoever runs the model sees a usual
 * worker, and the tuner tells it of swaps.
 */
import type { CallTimes } from "../backend/wasm/dispatch.js";
import { workerOf } from "../engine/page-worker.js";
import type { Failure, FromRuntime, LoadOrder, ToRuntime } from "../executor/messages.js";
import type { RuntimeWorker } from "../executor/worker-client.js";
import { HangDetector, LOOK_MS } from "./hang-detector.js";
import type { FromTuned, ToTuned } from "./messages.js";

type FromTunedModel = FromRuntime | FromTuned;
type ToModel = ToRuntime | ToTuned;

/** A page that chooses no kernels itself leaves out what it does not need. */
interface RuntimePorts {
  /** Returns the answer that is loaded first in the place of `answer`. */
  readonly loads: (answer: LoadOrder["answer"]) => LoadOrder["answer"];
  /** The model is loaded with what `loads` answered, or without the kernels that won here. */
  readonly loaded?: () => void;
  /** An inference was asked for, or the last one has ended. */
  readonly runs: () => void;
  readonly ran?: (times: CallTimes) => void;
  readonly told: (message: FromTuned) => void;
  /** The model does not load with the kernels that won here; it is loaded without them. */
  readonly refused?: () => void;
  /** Gives up the kernel that won here and made a run fail; answers whether there was one. */
  readonly givesUp?: (failure: Failure) => boolean;
  /** Gives up kernels that won here, as a run does not end with them; answers whether it did. */
  readonly hangs?: () => boolean;
  readonly ended: () => void;
}

type Failed = Extract<FromRuntime, { readonly type: "failed" | "refused" }>;

const mended = (failed: Failed): Failed => ({
  ...failed,
  failure: { ...failed.failure, mended: true },
});

/** The worker of a model, watched. */
export class WatchedRuntime implements RuntimeWorker {
  onmessage: RuntimeWorker["onmessage"] = null;
  onerror: RuntimeWorker["onerror"] = null;
  readonly #source: string;
  readonly #ports: RuntimePorts;
  #worker: Worker;
  /** The order that the page gave, where another answer is loaded first; else null. */
  #order: LoadOrder | null = null;
  #loaded = false;
  /** Runs that have not ended. */
  readonly #runs = new Set<number>();
  readonly #detector = new HangDetector();
  #looking: ReturnType<typeof setInterval> | undefined;

  constructor(source: string, ports: RuntimePorts) {
    this.#source = source;
    this.#ports = ports;
    this.#worker = this.#start();
  }

  get busy(): boolean {
    return this.#runs.size > 0;
  }

  tell(message: ToModel, transfer: Transferable[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  postMessage(message: ToRuntime, transfer: Transferable[]): void {
    if (message.type !== "load") {
      this.tell(message, transfer);
      if (message.type === "run") this.#began(message.id);
      return;
    }
    const { order } = message;
    const answer = this.#ports.loads(order.answer);
    this.#order = answer === order.answer ? null : order;
    this.tell({ type: "load", order: { ...order, answer } });
  }

  terminate(): void {
    clearInterval(this.#looking);
    this.#worker.terminate();
    this.#ports.ended();
  }

  #began(run: number): void {
    this.#runs.add(run);
    if (this.#runs.size > 1) return;
    this.#detector.begin();
    this.#looking = setInterval(() => this.#look(), LOOK_MS);
    this.#ports.runs();
  }

  #ended(run: number): void {
    this.#detector.end();
    this.#runs.delete(run);
    if (this.busy) return;
    clearInterval(this.#looking);
    this.#ports.runs();
  }

  /** The model is opened anew where a run does not end: that ends the worker. */
  #look(): void {
    if (!this.#detector.look() || !this.#ports.hangs?.()) return;
    const failure = { stage: "timeout", message: "The run does not end.", fault: null } as const;
    for (const id of this.#runs) this.#pass(mended({ type: "failed", id, failure }));
  }

  #reload(order: LoadOrder): void {
    this.#order = null;
    this.#worker.terminate();
    this.#worker = this.#start();
    this.tell({ type: "load", order });
  }

  #start(): Worker {
    const worker = workerOf(this.#source, "kernelzoo model");
    worker.onmessage = (event: MessageEvent<FromTunedModel>) => this.#heard(event);
    worker.onerror = (event) => this.onerror?.(event);
    return worker;
  }

  #heard({ data }: MessageEvent<FromTunedModel>): void {
    switch (data.type) {
      case "swapped":
      case "postponed":
      case "regression":
      case "timed":
      case "ranked":
        return void this.#ports.told(data);
      case "refused":
        return void this.#refused(data);
    }
    if (data.type === "loaded") {
      this.#loaded = true;
      this.#ports.loaded?.();
    }
    if (data.type === "done" && data.times.length > 0) this.#ports.ran?.(data.times);
    if (data.type === "done" || data.type === "aborted" || data.type === "failed") {
      this.#ended(data.id);
    }
    const givesUp = data.type === "failed" && this.#ports.givesUp?.(data.failure);
    this.#pass(givesUp ? mended(data) : data);
  }

  /** Kernels that won here may be at fault, but not where the zoo is away. */
  #refused(data: Extract<FromRuntime, { readonly type: "refused" }>): void {
    const order = this.#order;
    if (order === null || data.failure.stage === "network") return void this.#pass(data);
    this.#ports.refused?.();
    if (!this.#loaded) return void this.#reload(order);
    // There are runs that wait: the model is opened anew.
    this.#pass(mended(data));
  }

  #pass(data: FromRuntime): void {
    this.onmessage?.(new MessageEvent("message", { data }));
  }
}
