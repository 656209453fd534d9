import type { HostTurns } from "./turn.js";

/**
 * What a driver of browsers may define on `globalThis` before the page's scripts run. Turns are
 * taken through it when both functions are there.
 */
export interface KernelzooHost {
  readonly acquireTurn?: () => Promise<void>;
  readonly releaseTurn?: () => Promise<void>;
  /** Sent when a session is opened, so that caps for strangers do not apply. */
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
