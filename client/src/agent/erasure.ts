/** Has the gateway erase what it holds of this browser, then forgets it here. */
import { forgetNotes, type Notebook } from "../device/notebook.js";
import { ask } from "../gateway/request.js";
import { count } from "../page/text.js";
import type { Held } from "../wire/types.js";

const IDENTITY = "identity";

export interface Forgotten {
  /** True where the gateway still holds what was sent. */
  readonly left: boolean;
  readonly text: string;
}

/**
 * Has the gateway erase what this browser sent, and forgets everything here. While the gateway
 * cannot be reached, the identity is kept: it is needed to have the gateway erase what it holds,
 * when the visitor tries again.
 */
export async function forget(notebook: Notebook, origin: URL): Promise<Forgotten> {
  const identity = notebook.read(IDENTITY);
  forgetNotes([IDENTITY]);
  if (identity === null) return { left: false, text: "Nothing had been sent." };
  const answer = await ask<Held>(new URL("/v1/identities/forget", origin), {
    method: "POST",
    body: JSON.stringify({ identity }),
    headers: { "Content-Type": "application/json" },
  });
  switch (answer.kind) {
    case "ok":
      forgetNotes();
      return { left: false, text: erased(answer.value) };
    case "refused":
      forgetNotes();
      return { left: false, text: `The gateway knows no such identity: ${answer.detail}` };
    case "empty":
    case "unavailable": {
      const why = answer.kind === "empty" ? "It gave no answer." : answer.detail;
      return { left: true, text: `What this browser had sent is not erased yet. ${why}` };
    }
    default:
      return answer satisfies never;
  }
}

function erased({ measurements, ballots, leases, sessions, entries }: Held): string {
  const rows = [
    count(measurements, "measurement"),
    count(ballots, "ballot"),
    count(leases, "lease"),
    count(sessions, "session"),
  ];
  const stays =
    entries === 0
      ? ""
      : ` ${count(entries, "winner")} that it voted for ${entries === 1 ? "stays" : "stay"}, with` +
        " counts that name nobody.";
  return `The gateway has erased ${rows.join(", ")}.${stays}`;
}

/** The number in an identity's token, by which the operator can find it; "" where there is none. */
export function identityNumber(notebook: Notebook): string {
  const claims = notebook.read(IDENTITY)?.split(".")[1] ?? "";
  try {
    const content: unknown = JSON.parse(atob(claims.replaceAll("-", "+").replaceAll("_", "/")));
    const { sub } = content as { readonly sub?: unknown };
    return typeof sub === "string" ? sub : "";
  } catch {
    return "";
  }
}
