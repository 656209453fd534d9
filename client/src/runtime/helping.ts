/** What the workers hear that a model's worker starts: they run parts of calls, or prepare weights. */
import { Crew, crewMember, type FromCrew, type Hand, type Helping, type ToCrew } from "./crew.js";
import type { Linked } from "./kernels.js";
import type { FromPreparer, Prepare, Preparer, ToPreparer } from "./preparing.js";
import { failureOf, type Help } from "./serve.js";

/** The worker's global scope, which TypeScript's DOM library does not describe. */
interface WorkerScope {
  readonly crossOriginIsolated: boolean;
  readonly location: { readonly href: string };
  postMessage(message: FromCrew | FromPreparer): void;
  close(): void;
  addEventListener(
    type: "message",
    heard: (event: { readonly data: ToCrew | ToPreparer }) => void,
  ): void;
}

const scope = globalThis as unknown as WorkerScope;

const spawn = (): Hand & Preparer => new Worker(scope.location.href);

/**
 * Answers messages to helpers from now on, beside those that `serve` answers; what starts helpers is
 * null where workers cannot share memory. With `preparing` they may bring weights.
 */
export function helping(preparing: Prepare | null = null): Help {
  let member: Helping | null = null;
  let packs: (modules: readonly Linked[]) => void = () => undefined;
  scope.addEventListener("message", ({ data }) => {
    switch (data.type) {
      case "crew":
        member = crewMember(data.start);
        return scope.postMessage({ type: "ready" });
      case "up":
        return member?.up();
      case "change":
        member?.change(data.change);
        return scope.postMessage({ type: "ready" });
      case "prepare":
        return void preparing?.(data.order, new Promise((linked) => (packs = linked)), (told) =>
          scope.postMessage(told),
        ).then(
          () => scope.close(),
          (thrown) => scope.postMessage({ type: "failed", failure: failureOf(thrown) }),
        );
      case "kernels":
        return packs(data.modules);
      default:
        // Others may listen as well.
        data satisfies never;
    }
  });
  const { crossOriginIsolated: sharing } = scope;
  return {
    threads: sharing ? { start: Crew.start, spawn } : null,
    beside: sharing && preparing !== null ? spawn : null,
  };
}
