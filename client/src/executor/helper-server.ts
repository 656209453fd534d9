/** What the workers hear that a model's worker starts: they run parts of calls, or prepare weights. */

import {
  Crew,
  crewMember,
  type FromCrew,
  type Hand,
  type Helping,
  type ToCrew,
} from "../backend/wasm/crew.js";
import type { Linked } from "../backend/wasm/program.js";
import { scriptUrl } from "../engine/page-worker.js";
import { canShare } from "../engine/sharing.js";
import type {
  Begun,
  FromPreparer,
  PrepareOrder,
  Preparer,
  Preparing,
  ToPreparer,
} from "../weights/preparer.js";
import type { ToBeside } from "./messages.js";
import { failureOf, type Help } from "./worker-server.js";

/** The worker's global scope, which TypeScript's DOM library does not describe. */
interface WorkerScope {
  readonly location: { readonly href: string };
  postMessage(message: FromCrew | FromPreparer): void;
  close(): void;
  addEventListener(
    type: "message",
    heard: (event: { readonly data: ToCrew | ToPreparer | ToBeside }) => void,
  ): void;
}

const scope = globalThis as unknown as WorkerScope;

const spawn = (): Hand & Preparer => new Worker(scriptUrl(scope.location.href));

type Post = (message: FromPreparer) => void;

/**
 * Answers messages to helpers from now on, beside those that `serve` answers; what starts helpers is
 * null where workers cannot share memory. With `preparing` they may bring weights.
 */
export function helping(preparing: Preparing | null = null): Help {
  let member: Helping | null = null;
  let packs: (modules: readonly Linked[]) => void = () => undefined;
  let begun: Begun = {};
  const prepare = (order: PrepareOrder, post: Post): void => {
    const modules = new Promise<readonly Linked[]>((linked) => (packs = linked));
    preparing?.prepare(order, modules, post, begun).then(
      () => scope.close(),
      (thrown) => post({ type: "failed", failure: failureOf(thrown) }),
    );
  };
  const hear = (data: ToPreparer, post: Post): void => {
    switch (data.type) {
      case "prepare":
        prepare(data.order, post);
        break;
      case "kernels":
        packs(data.modules);
        break;
      case "end":
        scope.close();
        break;
      default:
        // Others may listen as well.
        data satisfies never;
    }
  };
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
      case "beside": {
        const { port, from } = data;
        const post: Post = (told) => port.postMessage(told);
        begun = preparing?.begin(from, post) ?? {};
        port.onmessage = (told) => hear(told.data, post);
        return;
      }
      default:
        return hear(data, (told) => scope.postMessage(told));
    }
  });
  const sharing = canShare();
  return {
    threads: sharing ? { start: Crew.start, spawn } : null,
    beside: sharing && preparing !== null ? spawn : null,
  };
}
