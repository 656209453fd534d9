/**
 * Runs a short plan on the page's own thread: what takes less than 0.2 ms is over before a message
 * has come to the worker and back. Loaded with the first such plan.
 */
import type { Ports } from "../backend/wasm/dispatch.js";
import { runnerOf } from "../backend/wasm/plan-copy.js";
import { breathing } from "../executor/event-loop.js";
import { untimed } from "../executor/executor.js";
import type { Stored } from "../executor/golden-tensors.js";
import type { ClientRun, Ran, WorkerClient } from "../executor/worker-client.js";
import { now } from "../timing/clock.js";
import type { PlanWire } from "../wire/model-answer.js";
import { ShortRuns } from "./short-runs.js";

/** Once the first run is so long ago, the page gets its turn before the next one. */
const TURN_MS = 4;

type Run = (feeds: readonly Stored[]) => readonly Stored[];

/** Runs of a plan on this thread, and in the worker where they are too slow for it or fail. */
export class PageRuns implements Pick<WorkerClient, "run"> {
  readonly #worker: Pick<WorkerClient, "run">;
  readonly #ports: Required<Pick<Ports, "breathe" | "clock">>;
  /** Null once runs stay in the worker. */
  #run: Run | null;
  /** The time of the first run since the page had its turn, and the promise of its next one. */
  #firstMs = Number.POSITIVE_INFINITY;
  #turn: Promise<void> | null = null;
  readonly #short = new ShortRuns();

  constructor(
    worker: Pick<WorkerClient, "run">,
    run: Run,
    ports: Required<Pick<Ports, "breathe" | "clock">>,
  ) {
    this.#worker = worker;
    this.#run = run;
    this.#ports = ports;
  }

  /** Rejects as the worker's run does. */
  async run(feeds: readonly Stored[], options: ClientRun = {}): Promise<Ran> {
    let startMs = this.#ports.clock();
    for (; startMs - this.#firstMs >= TURN_MS; startMs = this.#ports.clock()) await this.#turn;
    options.signal?.throwIfAborted();
    if (this.#run !== null && !options.timed) {
      this.#began(startMs);
      try {
        const outputs = this.#run(feeds);
        if (this.#short.areShort(this.#ports.clock() - startMs) === false) this.#run = null;
        return { feeds, outputs, times: untimed() };
      } catch {
        // The worker tells which kernel fails.
        this.#run = null;
      }
    }
    return this.#worker.run(feeds, options);
  }

  /** Leaves all further runs to the worker, those that wait for a turn included. */
  end(): void {
    this.#run = null;
  }

  #began(startMs: number): void {
    this.#firstMs = Math.min(this.#firstMs, startMs);
    this.#turn ??= this.#ports.breathe().then(() => {
      this.#firstMs = Number.POSITIVE_INFINITY;
      this.#turn = null;
    });
  }
}

/** Resolves with null where the page cannot run the plan. Rejects as the worker's `complete` does. */
export async function pageRuns(worker: WorkerClient, plan: PlanWire): Promise<PageRuns | null> {
  await worker.complete;
  const { copy } = await worker.ask<"copy">({ type: "copy" });
  try {
    const ports = { breathe: breathing(), clock: now };
    return copy ? new PageRuns(worker, runnerOf(plan, copy), ports) : null;
  } catch {
    // A page without the memory goes on in its worker.
    return null;
  }
}
