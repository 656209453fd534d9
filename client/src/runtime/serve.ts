/**
 * What a model's worker does with its messages: the one that the page starts loads and runs the model,
 * those that it starts in turn are its threads.
 */
import { KernelZooError, sentence } from "../engine/error.js";
import { crewMember, type FromCrew, type Hand, type ToCrew } from "./crew.js";
import { type Engine, type EnginePorts, WrongKernel } from "./engine.js";
import type { Failure, FromRuntime, LoadOrder, ToRuntime } from "./messages.js";

/** The worker's global scope, which TypeScript's DOM library does not describe. */
interface WorkerScope {
  readonly crossOriginIsolated: boolean;
  readonly location: { readonly href: string };
  postMessage(message: FromRuntime | FromCrew, transfer?: Transferable[]): void;
  onmessage: ((event: { readonly data: ToRuntime | ToCrew }) => void) | null;
}

const scope = globalThis as unknown as WorkerScope;

/** Lets messages in: one to ourselves comes after those that wait. */
export function breathing(): () => Promise<void> {
  const { port1, port2 } = new MessageChannel();
  let resolve: (() => void) | null = null;
  port1.onmessage = () => resolve?.();
  return () =>
    new Promise((done) => {
      resolve = done;
      port2.postMessage(null);
    });
}

function failureOf(thrown: unknown): Failure {
  const fault = thrown instanceof WrongKernel ? thrown.fault : null;
  const stage = thrown instanceof KernelZooError ? thrown.stage : "run";
  return { stage, message: sentence(thrown), fault };
}

const post = (message: FromRuntime, transfer: Transferable[] = []): void =>
  scope.postMessage(message, transfer);

const spawn = (): Hand => new Worker(scope.location.href, { name: "kernelzoo thread" });

const ports: EnginePorts = {
  breathe: breathing(),
  progress: (progress) => post({ type: "progress", progress }),
  spawn: scope.crossOriginIsolated ? spawn : null,
};

/** What a worker needs of a model that is loaded. */
export type Served = Pick<Engine, "loaded" | "run">;

/** Answers messages from now on; `open` loads the model. */
export function serve(open: (order: LoadOrder, ports: EnginePorts) => Promise<Served>): void {
  let engine: Served | null = null;
  let last: Promise<unknown> = Promise.resolve();
  const aborted = new Set<number>();
  let helping: (() => void) | null = null;

  const load = async (order: LoadOrder): Promise<void> => {
    try {
      engine = await open(order, ports);
      post({ type: "loaded", loaded: engine.loaded });
    } catch (thrown) {
      post({ type: "refused", failure: failureOf(thrown) });
    }
  };

  const run = async ({ id, feeds }: Extract<ToRuntime, { type: "run" }>): Promise<void> => {
    try {
      const gone = (): boolean => aborted.has(id);
      const result = gone() ? null : ((await engine?.run(feeds, gone)) ?? null);
      if (result === null) return post({ type: "aborted", id });
      const buffers = result.outputs.map(({ buffer }) => buffer);
      post({ type: "done", id, ...result }, [...buffers, result.times.buffer]);
    } catch (thrown) {
      post({ type: "failed", id, failure: failureOf(thrown) });
    } finally {
      aborted.delete(id);
    }
  };

  scope.onmessage = ({ data }) => {
    switch (data.type) {
      case "load":
        return void load(data.order);
      case "run":
        last = last.then(() => run(data));
        return;
      case "abort":
        return void aborted.add(data.id);
      case "crew":
        helping = crewMember(data.start);
        return scope.postMessage({ type: "ready" });
      case "up":
        return helping?.();
      default:
        // Others may listen as well.
        data satisfies never;
    }
  };
}
