/** A peer in a worker of its own, as sites have it whose page shall not block: what both sides say. */
import type { Fed, Network, Values } from "./network.js";

export type ToSession =
  | { readonly type: "open"; readonly network: Network; readonly threads: number }
  | { readonly type: "run"; readonly feeds?: readonly Fed[] };

export type FromSession =
  | { readonly type: "ran"; readonly outputs: Values; readonly name: string }
  | { readonly type: "failed"; readonly message: string };

/** A network that is loaded, with its feeds. */
export interface Opened {
  /** The peer with its release. */
  readonly name: string;
  /** Runs it on `feeds`, or on the network's own inputs. */
  run(feeds?: readonly Fed[]): Promise<Values>;
}

/** The worker's side. The first run follows upon loading. */
export function serveSession(open: (network: Network, threads: number) => Promise<Opened>): void {
  let opened: Opened | null = null;
  const answer = (message: FromSession, transfer: Transferable[] = []): void => {
    postMessage(message, { transfer });
  };
  globalThis.onmessage = async ({ data }: MessageEvent<ToSession>): Promise<void> => {
    try {
      if (data.type === "open") opened = await open(data.network, data.threads);
      if (opened === null) throw new Error("no network is open");
      const outputs = await opened.run(data.type === "run" ? data.feeds : undefined);
      const buffers = Object.values(outputs).map(({ buffer }) => buffer);
      answer({ type: "ran", outputs, name: opened.name }, buffers);
    } catch (thrown) {
      answer({ type: "failed", message: String(thrown) });
    }
  };
}
