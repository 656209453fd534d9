/** Answers the messages of a page in its model's worker: it loads and runs the model. */
import type { WasmPorts } from "../backend/wasm/executor.js";
import { KernelZooError, sentence } from "../engine/error.js";
import { poster, serveMessages } from "../rpc.js";
import { after } from "../timing/clock.js";
import type { Preparer } from "../weights/preparer.js";
import { breathing, unstoppable } from "./event-loop.js";
import type { Executor } from "./executor.js";
import type { Failure, FromRuntime, Keeping, LoadOrder, ToRuntime } from "./messages.js";
import { WrongKernel, WrongOutput } from "./output-check.js";
import { buffersOf } from "./transferables.js";

export function failureOf(thrown: unknown): Failure {
  const fault = thrown instanceof WrongKernel ? thrown.fault : null;
  const stage = thrown instanceof KernelZooError ? thrown.stage : "run";
  const output = thrown instanceof WrongOutput && { output: thrown.output };
  return { stage, message: sentence(thrown), fault, ...output };
}

const post = poster<FromRuntime>();

/** Workers that help; null where there are none. */
export interface Help {
  readonly threads: WasmPorts["threads"];
  /** Starts a worker that prepares weights. */
  readonly beside: (() => Preparer) | null;
}

export interface ServePorts extends WasmPorts, Help {
  /** The port of a worker which the page has started to prepare weights. */
  readonly given?: MessagePort | undefined;
}

/** The golden outputs are compared once there was no run for so long. */
const IDLE_MS = 20;
/** The comparison gives way to runs of the page this often. */
const MOST_YIELDS = 16;

/**
 * Answers messages from now on; `open` loads the model. A run starts when the last one has ended, or
 * at once where the executor has them overlap.
 */
export function serve(
  open: (order: LoadOrder, ports: ServePorts) => Promise<Executor>,
  help: Help = { threads: null, beside: null },
): void {
  const ports: ServePorts = {
    breathe: breathing(),
    progress: (progress) => post({ type: "progress", progress }),
    ...help,
  };
  let executor: Executor | null = null;
  let last: Promise<unknown> = Promise.resolve();
  /** Runs that are not over. */
  let waiting = 0;
  const aborted = new Set<number>();

  const load = async (order: LoadOrder, given: MessagePort | undefined): Promise<void> => {
    try {
      executor = await open(order, { ...ports, given });
      if (order.check === "first") await executor.check(ports, () => false);
      post({ type: "loaded", loaded: executor.loaded });
      executor.warmUp?.();
      await executor.stored;
      if (order.check === true) await checkWhenIdle(executor);
      post({ type: "complete" });
    } catch (thrown) {
      post({ type: "refused", failure: failureOf(thrown) });
    }
  };

  /** Throws what `check` throws. */
  const checkWhenIdle = async (served: Executor): Promise<void> => {
    for (let yields = 0; ; yields++) {
      await last;
      await after(IDLE_MS);
      const patient = yields < MOST_YIELDS;
      if (waiting > 0 && patient) continue;
      const checked = last.then(() => served.check(ports, () => waiting > 0 && patient));
      last = checked.catch(() => undefined);
      if (await checked) return;
    }
  };

  const run = async (asked: Extract<ToRuntime, { type: "run" }>): Promise<void> => {
    const { id, feeds, into, timed, stoppable } = asked;
    try {
      const gone = stoppable ? (): boolean => aborted.has(id) : unstoppable;
      // Without it, nothing is heard from the last part of one run to the first breath of the next.
      if (waiting > 1 && !executor?.overlaps) await ports.breathe();
      const result = gone() ? null : ((await executor?.run(feeds, gone, timed, into)) ?? null);
      if (result === null) return post({ type: "aborted", id });
      const sent = buffersOf([...feeds, ...result.outputs, result.times]);
      post({ type: "done", id, feeds, ...result }, sent);
    } catch (thrown) {
      post({ type: "failed", id, failure: failureOf(thrown) });
    } finally {
      aborted.delete(id);
      waiting -= 1;
    }
  };

  /** Sends a part of the memory of weights; it is empty where that cannot be read. */
  const tellPiece = async ({ id, address, into }: Extract<ToRuntime, { type: "read" }>) => {
    const piece = (await executor?.read?.(address, into)) ?? new Uint8Array();
    post({ type: "read", id, piece }, [piece.buffer]);
  };

  const tellCopy = ({ id }: Extract<ToRuntime, { type: "copy" }>): void => {
    const copy = executor?.copy?.();
    post({ type: "copy", id, copy }, copy ? [copy.bytes.buffer] : []);
  };

  const keep = async (asked: Keeping & { readonly id: number }): Promise<void> =>
    post({ ...(await executor?.keep?.(asked)), type: asked.type, id: asked.id });

  serveMessages<ToRuntime>({
    load: ({ order, beside }) => load(order, beside),
    run(asked) {
      waiting += 1;
      last = executor?.overlaps ? run(asked) : last.then(() => run(asked));
    },
    soon: () => executor?.soon?.(),
    abort: ({ id }) => aborted.add(id),
    read: tellPiece,
    copy: tellCopy,
    ways: keep,
    write: keep,
  });
}
