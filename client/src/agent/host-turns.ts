import type { FromWorker } from "./messages.js";
import type { HostTurns } from "./turn.js";

/** The host's turns, asked for by message; `answered` takes the page's answers. */
export interface RemoteTurns {
  readonly turns: HostTurns;
  answered(error: string | null): void;
}

/** One turn at a time, as an agent never asks for a second one while it waits. */
export function remoteTurns(post: (message: FromWorker) => void): RemoteTurns {
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
