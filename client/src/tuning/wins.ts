/** Kernels that won in this browser, kept for the next visit. */
import type { Notebook } from "../device/notebook.js";
import type { ModelAnswer } from "../runtime/answer.js";
import type { KernelWire } from "../wire/types.js";

/** `over`: the artifact that the zoo served, which it is faster than. */
export interface Win {
  readonly kernel: KernelWire;
  readonly over: string;
  readonly relativeTime: number;
  /** When it won, in milliseconds since 1970. */
  readonly at: number;
}

/** Wins by workload. `browser` is the one that they were found in. */
interface Note {
  readonly browser: string;
  readonly wins: Readonly<Record<string, Win>>;
  /** Artifacts that were tried when the GPU was lost. */
  readonly avoided?: readonly string[];
}

/** Owns the note of one zoo and class of devices. */
export class Wins {
  readonly #notes: Notebook;
  readonly #key: string;
  readonly #browser: string;
  #note: Note;

  constructor(notes: Notebook, zoo: string, deviceClass: string, browser: string) {
    this.#notes = notes;
    this.#key = `won:${zoo}:${deviceClass}`;
    this.#browser = browser;
    this.#note = parsed(notes.read(this.#key)) ?? { browser, wins: {} };
  }

  /** Wins of workloads that the zoo still serves the same kernel for. */
  of(answer: ModelAnswer): readonly (readonly [workload: string, win: Win])[] {
    return Object.entries(this.#note.wins).filter(([workload, { over, kernel }]) => {
      const served = answer.kernels[workload];
      return served?.kernel.sha256 === over && kernel.sha256 !== over;
    });
  }

  /** Whether this browser found them: then they are run, else measured again first. */
  get trusted(): boolean {
    return this.#note.browser === this.#browser;
  }

  /** Artifacts that are not to be tried in this browser. */
  get avoided(): readonly string[] {
    return (this.trusted && this.#note.avoided) || [];
  }

  keep(workload: string, win: Win): void {
    const wins = this.trusted ? this.#note.wins : {};
    this.#write({ ...wins, [workload]: win }, this.avoided);
  }

  forget(workloads: readonly string[]): void {
    const left = Object.entries(this.#note.wins).filter(([each]) => !workloads.includes(each));
    this.#write(Object.fromEntries(left), this.avoided);
  }

  avoid(artifact: string): void {
    this.#write(this.trusted ? this.#note.wins : {}, [...this.avoided, artifact]);
  }

  #write(wins: Note["wins"], avoided: readonly string[]): void {
    this.#note = { browser: this.#browser, wins, ...(avoided.length > 0 ? { avoided } : {}) };
    this.#notes.write(this.#key, JSON.stringify(this.#note));
  }
}

/** Null for what no visit has noted. */
function parsed(text: string | null): Note | null {
  try {
    const note = JSON.parse(text ?? "null") as Note | null;
    return typeof note?.browser === "string" && typeof note.wins === "object" ? note : null;
  } catch {
    return null;
  }
}
