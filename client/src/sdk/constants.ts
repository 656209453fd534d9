import { KernelZooError } from "../engine/error.js";

/** The constant inputs of a kernel, and which of them have no values yet. */
export class Constants {
  readonly names: readonly string[];
  readonly #awaited: Set<string>;

  constructor(names: readonly string[]) {
    this.names = names;
    this.#awaited = new Set(names);
  }

  given(name: string): void {
    this.#awaited.delete(name);
  }

  /** Throws KernelZooError (run) for an input that is not constant. */
  refuseOther(name: string): void {
    if (this.names.includes(name)) return;
    const known = this.names.join(", ") || "none";
    throw new KernelZooError("run", `Input ${name} is not constant. Constant are: ${known}.`);
  }

  /** Throws KernelZooError (run) for an input of a run that is constant. */
  refuseConstant(name: string): void {
    if (!this.names.includes(name)) return;
    throw new KernelZooError(
      "run",
      `Input ${name} is constant. Change it with setConstants, or open the kernel without ` +
        "`constant` where each run has other values.",
    );
  }

  /** Throws KernelZooError (run) until all have values. */
  refuseAwaited(): void {
    for (const name of this.#awaited) {
      throw new KernelZooError(
        "run",
        `Input ${name} is constant and has no values. Give them once, with setConstants({ ${name} }).`,
      );
    }
  }
}
