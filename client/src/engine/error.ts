/** The stages at which something goes wrong, in the order in which a kernel comes to life. */
export type Stage =
  | "profile"
  | "network"
  | "manifest"
  | "signature"
  | "artifact"
  | "validate"
  | "compile"
  | "memory"
  | "storage"
  | "run"
  | "compare"
  | "timeout";

/** The one error of the client: `message` says what was wrong and what to do about it. */
export class KernelZooError extends Error {
  override readonly name = "KernelZooError";
  readonly stage: Stage;

  constructor(stage: Stage, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.stage = stage;
  }
}

/** One sentence for whatever was thrown. */
export function sentence(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** One sentence for an address that does not answer. */
export const unanswered = ({ origin }: URL, thrown: unknown): string =>
  `No answer from ${origin} (${sentence(thrown)}). Is it running?`;
