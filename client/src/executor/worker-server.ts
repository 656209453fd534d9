/** What a model's worker does with the messages of its page: it loads and runs the model. */
import { KernelZooError, sentence } from "../engine/error.js";
import type { Preparer } from "../weights/preparer.js";
import { breathing, unstoppable } from "./event-loop.js";
import type { Stored } from "./golden-tensors.js";
import type {
  Failure,
  FromRuntime,
  Keeping,
  KeepingAnswer,
  LoadOrder,
  ToRuntime,
} from "./messages.js";
import { WrongKernel, WrongOutput } from "./output-check.js";
import { buffersOf } from "./transferables.js";
import type { Engine, EnginePorts } from "./wasm-executor.js";

/** The worker's global scope, which TypeScript's DOM library does not describe. */
interface WorkerScope {
  postMessage(message: FromRuntime, transfer?: Transferable[]): void;
  onmessage: ((event: { readonly data: ToRuntime }) => void) | null;
}

const scope = globalThis as unknown as WorkerScope;

export function failureOf(thrown: unknown): Failure {
  const fault = thrown instanceof WrongKernel ? thrown.fault : null;
  const stage = thrown instanceof KernelZooError ? thrown.stage : "run";
  const output = thrown instanceof WrongOutput && { output: thrown.output };
  return { stage, message: sentence(thrown), fault, ...output };
}

const post = (message: FromRuntime, transfer: Transferable[] = []): void =>
  scope.postMessage(message, transfer);

/** Workers that help; null where there are none. */
export interface Help {
  readonly threads: EnginePorts["threads"];
  /** Starts a worker that prepares weights. */
  readonly beside: (() => Preparer) | null;
}

export interface ServePorts extends EnginePorts, Help {
  /** That of a worker which the page has started to prepare weights. */
  readonly given?: MessagePort | undefined;
}

/** What a worker needs of a model that is loaded. */
export interface Served extends Pick<Engine, "loaded" | "stored" | "check"> {
  /** What can be done while the page does not know yet that runs may come. */
  readonly warmUp?: () => void;
  /** Told that a run is about to be asked for. */
  readonly soon?: () => void;
  /** Rejects where the GPU is lost. */
  readonly read?: (
    ...asked: Parameters<Engine["read"]>
  ) => ReturnType<Engine["read"]> | Promise<ReturnType<Engine["read"]>>;
  /** What a worker does that knows of storage. */
  readonly keep?: (asked: Keeping) => Promise<KeepingAnswer>;
  /**
   * Null where `aborted` said to stop. With `timed` each call is to be timed, at any cost. Outputs may
   * take the memory of `into`.
   */
  run(
    ...asked: [...Parameters<Engine["run"]>, timed: boolean, into: readonly Stored[]]
  ): ReturnType<Engine["run"]>;
}

/** Without a run for so long, the golden outputs are compared. */
const IDLE_MS = 20;
/** So often the comparison gives way to a run of the page. */
const MOST_YIELDS = 16;

const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/**
 * Answers messages from now on; `open` loads the model. A run starts when the last one has ended, or
 * at once where the model runs several `together`.
 */
export function serve(
  open: (order: LoadOrder, ports: ServePorts) => Promise<Served>,
  help: Help = { threads: null, beside: null },
  together = false,
): void {
  const ports: ServePorts = {
    breathe: breathing(),
    soon: () => post({ type: "soon" }),
    progress: (progress) => post({ type: "progress", progress }),
    ...help,
  };
  let engine: Served | null = null;
  let last: Promise<unknown> = Promise.resolve();
  /** Runs that are not over. */
  let wanted = 0;
  const aborted = new Set<number>();

  const load = async (order: LoadOrder, given: MessagePort | undefined): Promise<void> => {
    try {
      engine = await open(order, { ...ports, given });
      if (order.check === "first") await engine.check(ports, () => false);
      post({ type: "loaded", loaded: engine.loaded });
      engine.warmUp?.();
      await engine.stored;
      if (order.check === true) await checkWhenIdle(engine);
      post({ type: "complete" });
    } catch (thrown) {
      post({ type: "refused", failure: failureOf(thrown) });
    }
  };

  /** Throws what `check` throws. */
  const checkWhenIdle = async (served: Served): Promise<void> => {
    for (let yields = 0; ; yields++) {
      await last;
      await sleep(IDLE_MS);
      const patient = yields < MOST_YIELDS;
      if (wanted > 0 && patient) continue;
      const checked = last.then(() => served.check(ports, () => wanted > 0 && patient));
      last = checked.catch(() => undefined);
      if (await checked) return;
    }
  };

  const run = async (asked: Extract<ToRuntime, { type: "run" }>): Promise<void> => {
    const { id, feeds, into, timed, stoppable } = asked;
    try {
      const gone = stoppable ? (): boolean => aborted.has(id) : unstoppable;
      // Else nothing would be heard from the last part of one run to the first breath of the next.
      if (wanted > 1 && !together) await ports.breathe();
      const result = gone() ? null : ((await engine?.run(feeds, gone, timed, into)) ?? null);
      if (result === null) return post({ type: "aborted", id });
      const sent = buffersOf([...feeds, ...result.outputs, result.times]);
      post({ type: "done", id, feeds, ...result }, sent);
    } catch (thrown) {
      post({ type: "failed", id, failure: failureOf(thrown) });
    } finally {
      aborted.delete(id);
      wanted -= 1;
    }
  };

  /** An empty one where there is none. */
  const tellPiece = async ({ id, address, into }: Extract<ToRuntime, { type: "read" }>) => {
    const told = await Promise.resolve(engine?.read?.(address, into)).catch(() => undefined);
    const piece = told ?? new Uint8Array();
    post({ type: "read", id, piece }, [piece.buffer]);
  };

  const keep = async (asked: Keeping & { readonly id: number }): Promise<void> =>
    post({ ...(await engine?.keep?.(asked)), type: asked.type, id: asked.id });

  scope.onmessage = ({ data }) => {
    switch (data.type) {
      case "load":
        return void load(data.order, data.beside);
      case "run":
        wanted += 1;
        last = together ? run(data) : last.then(() => run(data));
        return;
      case "soon":
        return engine?.soon?.();
      case "abort":
        return void aborted.add(data.id);
      case "read":
        return void tellPiece(data);
      case "ways":
      case "write":
        return void keep(data);
      default:
        // Others may listen as well.
        data satisfies never;
    }
  };
}
