/** Turns among the agents of one host: two that time at once would measure one another. */

/** Runs `work` while no other agent that shares a lock is in its turn. */
export type WithTurn = <T>(work: () => T | Promise<T>) => Promise<T>;

/** The turns that a driver of several browsers lends: one at a time for the whole machine. */
export interface HostTurns {
  acquireTurn(): Promise<void>;
  releaseTurn(): Promise<void>;
}

/** The part of `navigator.locks` that is used; absent in pages on plain http. */
export interface Locks {
  request<T>(name: string, work: () => Promise<T>): Promise<T>;
}

const LOCK = "kernelzoo-timing";

async function inHostTurn<T>(host: HostTurns, work: () => T | Promise<T>): Promise<T> {
  await host.acquireTurn();
  try {
    return await work();
  } finally {
    await host.releaseTurn();
  }
}

/**
 * Turns among the tabs of one browser profile by `locks`, among browsers by `host`, where there
 * are any. The lock comes first: one tab of a profile queues at the host.
 */
export function turns(locks: Locks | undefined, host: HostTurns | undefined): WithTurn {
  return async (work) => {
    const inner = async () => (host === undefined ? work() : inHostTurn(host, work));
    return locks === undefined ? inner() : locks.request(LOCK, inner);
  };
}

/** A request of a worker to its page, which has the host. */
export type TurnRequest = { readonly type: "acquire-turn" } | { readonly type: "release-turn" };

/** The host's turns, asked for by message; `answered` takes the page's answers. */
export interface RemoteTurns {
  readonly turns: HostTurns;
  answered(error: string | null): void;
}

/** One turn at a time, as an agent never asks for a second one while it waits. */
export function remoteTurns(post: (request: TurnRequest) => void): RemoteTurns {
  let waiting: { resolve(): void; reject(reason: Error): void } | null = null;
  return {
    turns: {
      acquireTurn: () =>
        new Promise((resolve, reject) => {
          waiting = { resolve, reject };
          post({ type: "acquire-turn" });
        }),
      releaseTurn: async () => post({ type: "release-turn" }),
    },
    answered(error) {
      if (error === null) waiting?.resolve();
      else waiting?.reject(new Error(`The host of this browser gave no turn: ${error}`));
      waiting = null;
    },
  };
}

declare global {
  /** The host that a driver lends to the page before it starts; absent in ordinary visits. */
  var kernelzooHost: KernelzooHost | undefined;
}

/**
 * The host that a driver of browsers may define on `globalThis` before the page's scripts run.
 * Turns are taken through it when both functions are there.
 */
export interface KernelzooHost {
  readonly acquireTurn?: () => Promise<void>;
  readonly releaseTurn?: () => Promise<void>;
  /** Sent with sessions and failures, so that caps for strangers do not apply. */
  readonly operatorKey?: string;
}

export interface PageHost {
  readonly turns: HostTurns | undefined;
  readonly operatorKey: string | null;
}

export function pageHost(host: KernelzooHost | undefined = globalThis.kernelzooHost): PageHost {
  const { acquireTurn, releaseTurn, operatorKey } = host ?? {};
  const complete = acquireTurn !== undefined && releaseTurn !== undefined;
  return {
    turns: complete ? { acquireTurn, releaseTurn } : undefined,
    operatorKey: operatorKey || null,
  };
}
