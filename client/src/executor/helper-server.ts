/**
 * Answers messages in the workers that a model's worker starts: they run parts of calls, or they
 * prepare weights.
 */
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
import { type Handlers, handle, poster, serveMessages, workerScope } from "../rpc.js";
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

const spawn = (): Hand & Preparer => new Worker(scriptUrl(workerScope.location.href));

type Post = (message: FromPreparer) => void;
const post = poster<FromCrew | FromPreparer>();

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
      () => workerScope.close(),
      (thrown) => post({ type: "failed", failure: failureOf(thrown) }),
    );
  };
  const preparerWith = (post: Post): Handlers<ToPreparer> => ({
    prepare: ({ order }) => prepare(order, post),
    kernels: ({ modules }) => packs(modules),
    end: () => workerScope.close(),
  });
  serveMessages<ToCrew | ToPreparer | ToBeside>({
    crew({ start }) {
      member = crewMember(start);
      post({ type: "ready" });
    },
    up: () => member?.up(),
    change({ change }) {
      member?.change(change);
      post({ type: "ready" });
    },
    beside({ port, from }) {
      const postThere: Post = (message) => port.postMessage(message);
      const handlers = preparerWith(postThere);
      begun = preparing?.begin(from, postThere) ?? {};
      port.onmessage = ({ data }) => handle(handlers, data);
    },
    ...preparerWith(post),
  });
  const sharing = canShare();
  return {
    threads: sharing ? { start: Crew.start, spawn } : null,
    beside: sharing && preparing !== null ? spawn : null,
  };
}
