/** How measuring gives way to inferences: after each slice messages come in, and work waits while it must. */
import type { Gate } from "../agent/pauses.js";
import { type Clock, now } from "./clock.js";

/** Counts the time that is not rested. */
export class Rests {
  #restedMs = 0;
  readonly #gate: Pick<Gate, "isOpen" | "pass">;
  readonly #breathe: () => Promise<void>;

  constructor(gate: Pick<Gate, "isOpen" | "pass">, breathe: () => Promise<void>) {
    this.#gate = gate;
    this.#breathe = breathe;
  }

  /** Stands still during a rest. */
  readonly clock: Clock = () => now() - this.#restedMs;

  readonly rest = async (): Promise<void> => {
    const before = now();
    await this.#breathe();
    while (!this.#gate.isOpen) await this.#gate.pass();
    this.#restedMs += now() - before;
  };
}
