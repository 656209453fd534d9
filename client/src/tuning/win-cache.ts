/** Kernels that won in this browser, kept for the next visit. */
import type { Notebook } from "../device/notebook.js";
import type { ModelAnswer } from "../wire/model-answer.js";
import type { KernelWire } from "../wire/types.js";

/** A kernel that won. `over` is the artifact that the zoo served, which it is faster than. */
export interface Win {
  readonly kernel: KernelWire;
  readonly over: string;
  readonly relativeTime: number;
  /** The time at which it won, in milliseconds since 1970. */
  readonly at: number;
}

/** A win with the browser, and its version, that it was found in. */
interface KeptWin extends Win {
  readonly browser: string;
}

interface Note {
  /** By workload. */
  readonly wins: Readonly<Record<string, KeptWin>>;
  /** Artifacts that failed, each with the browser that it failed in last. */
  readonly avoided: Readonly<Record<string, string>>;
}

type WinOf = readonly [workload: string, win: Win];

/**
 * The note of one zoo and class of devices. Other models and other tabs write to the same one: it is
 * read anew before each change.
 */
export class Wins {
  readonly #notes: Notebook;
  readonly #key: string;
  readonly #browser: string;
  /** Artifacts that failed in this page, which it avoids whether or not that could be noted. */
  readonly #failed = new Set<string>();

  constructor(notes: Notebook, zoo: string, deviceClass: string, browser: string) {
    this.#notes = notes;
    this.#key = `won:${zoo}:${deviceClass}`;
    this.#browser = browser;
  }

  /** Returns the wins that this browser found: they run from the first inference on. */
  trusted(answer: ModelAnswer): readonly WinOf[] {
    return this.#of(answer, (browser) => browser === this.#browser);
  }

  /** Returns the wins that another version of the browser found: they are measured again first. */
  unproven(answer: ModelAnswer): readonly WinOf[] {
    return this.#of(answer, (browser) => browser !== this.#browser);
  }

  /** Artifacts that are not to be tried in this browser. */
  get avoided(): readonly string[] {
    const noted = Object.entries(this.#note.avoided);
    const here = noted.filter(([, browser]) => browser === this.#browser);
    return [...this.#failed, ...here.map(([artifact]) => artifact)];
  }

  keep(workload: string, win: Win): void {
    const { wins, avoided } = this.#note;
    this.#write({ wins: { ...wins, [workload]: { ...win, browser: this.#browser } }, avoided });
  }

  forget(workloads: readonly string[]): void {
    const { wins, avoided } = this.#note;
    const left = Object.entries(wins).filter(([key]) => !workloads.includes(key));
    this.#write({ wins: Object.fromEntries(left), avoided });
  }

  avoid(artifact: string): void {
    this.#failed.add(artifact);
    const here = Object.fromEntries(this.avoided.map((artifact) => [artifact, this.#browser]));
    const { wins, avoided } = this.#note;
    this.#write({ wins, avoided: { ...avoided, ...here } });
  }

  /** Wins of workloads that the zoo still serves the same kernel for. */
  #of(answer: ModelAnswer, isOf: (browser: string) => boolean): readonly WinOf[] {
    const { avoided } = this;
    return Object.entries(this.#note.wins).filter(([workload, { over, kernel, browser }]) => {
      const served = answer.kernels[workload]?.kernel.sha256;
      const won = served === over && kernel.sha256 !== over;
      return won && isOf(browser) && !avoided.includes(kernel.sha256);
    });
  }

  get #note(): Note {
    return parsed(this.#notes.read(this.#key));
  }

  #write(note: Note): void {
    this.#notes.write(this.#key, JSON.stringify(note));
  }
}

/** Reads a note; it is empty where no visit has noted anything, or the text is malformed. */
function parsed(text: string | null): Note {
  const empty = { wins: {}, avoided: {} };
  try {
    return { ...empty, ...(JSON.parse(text ?? "null") as Partial<Note> | null) };
  } catch {
    return empty;
  }
}
