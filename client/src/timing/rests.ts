/**
 * Has measuring give way to inferences: after each slice messages come in, and work waits while it
 * must.
 */

import { type Clock, now } from "./clock.js";
import type { Gate } from "./gate.js";

/** Says when a slice may begin, and is told of each, where it wants to know. */
export interface SliceGate extends Pick<Gate, "isOpen" | "pass"> {
  begin?(): void;
  end?(): void;
}

/** Keeps a clock of the time in which work does not rest. */
export class Rests {
  #restedMs = 0;
  readonly #gate: SliceGate;
  readonly #breathe: () => Promise<void>;

  constructor(gate: SliceGate, breathe: () => Promise<void>) {
    this.#gate = gate;
    this.#breathe = breathe;
  }

  /** Stands still during a rest. */
  readonly clock: Clock = () => now() - this.#restedMs;

  readonly rest = async (): Promise<void> => {
    const before = now();
    this.#gate.end?.();
    await this.#breathe();
    while (!this.#gate.isOpen) await this.#gate.pass();
    this.#gate.begin?.();
    this.#restedMs += now() - before;
  };
}
