/** Taking turns: agents on one machine must not time at once, or they measure one another. */

/** Runs `work` while no other agent that shares a lock is in its turn. */
export type WithTurn = <T>(work: () => T | Promise<T>) => Promise<T>;

/** What a driver of several browsers lends: one turn for the whole machine. */
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
