/**
 * The daily budget: what a visitor lends, what is left of it today, and the time that the worker
 * spends of it. The page keeps both in this browser; the worker counts and tells.
 */
import type { Notebook } from "../device/notebook.js";
import type { WithTurn } from "../measurer/turns.js";
import { type Clock, now } from "../timing/clock.js";

/** Share of the time between two bursts that is spent measuring. */
export const INTENSITIES = { gentle: 0.25, normal: 0.5, full: 1 } as const;
export type Intensity = keyof typeof INTENSITIES;

export interface Budget {
  /** The minutes to measure in a day; infinite for browsers that a driver runs. */
  readonly minutes: number;
  readonly intensity: Intensity;
}

export interface Spent {
  /** The date where the device is, as in `2026-11-21`. */
  readonly day: string;
  readonly ms: number;
}

export const DEFAULT_BUDGET: Budget = { minutes: 15, intensity: "normal" };
const LONGEST_MINUTES = 24 * 60;

const isIntensity = (text: unknown): text is Intensity =>
  typeof text === "string" && Object.hasOwn(INTENSITIES, text);

function parsed(note: string | null): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(note ?? "{}");
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

/** Reads a note; answers the default where it is malformed. */
export function parseBudget(note: string | null): Budget {
  const { minutes, intensity } = parsed(note);
  const known = typeof minutes === "number" && minutes > 0 && minutes <= LONGEST_MINUTES;
  return {
    minutes: known ? minutes : DEFAULT_BUDGET.minutes,
    intensity: isIntensity(intensity) ? intensity : DEFAULT_BUDGET.intensity,
  };
}

export function dayOf(date: Date): string {
  const two = (n: number): string => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** Reads what was spent on `day`: nothing where the note names another day. */
export function parseSpent(note: string | null, day: string): Spent {
  const { day: noted, ms } = parsed(note);
  return { day, ms: noted === day && typeof ms === "number" && ms > 0 ? ms : 0 };
}

export const budgetMs = ({ minutes }: Budget): number => minutes * 60_000;

export const leftMs = (budget: Budget, { ms }: Spent): number => Math.max(budgetMs(budget) - ms, 0);

export interface Lending {
  readonly budget: Budget;
  readonly spent: Spent;
  readonly allowed: Allowed;
  choose(budget: Budget): void;
  /** Another tab of this browser may have added to it as well. */
  spend(ms: number): void;
}

/** Reads what a visitor lends. It is read anew each time: a day ends, and tabs share one budget. */
export function storedLending(notebook: Notebook): Lending {
  const budget = (): Budget => parseBudget(notebook.read("budget"));
  const spent = (): Spent => parseSpent(notebook.read("spent"), dayOf(new Date()));
  return {
    get budget() {
      return budget();
    },
    get spent() {
      return spent();
    },
    get allowed() {
      return { leftMs: leftMs(budget(), spent()), share: INTENSITIES[budget().intensity] };
    },
    choose: (chosen) => notebook.write("budget", JSON.stringify(chosen)),
    spend(ms) {
      const { day, ms: before } = spent();
      notebook.write("spent", JSON.stringify({ day, ms: Math.round(before + ms) }));
    },
  };
}

/** A browser that a driver runs lends as much as there is to do. */
export const unlimitedLending = (): Lending => ({
  budget: { minutes: Number.POSITIVE_INFINITY, intensity: "full" },
  spent: { day: "", ms: 0 },
  allowed: { leftMs: Number.POSITIVE_INFINITY, share: 1 },
  choose: () => undefined,
  spend: () => undefined,
});

export const isLimited = ({ budget }: Lending): boolean => Number.isFinite(budget.minutes);

/**
 * The allowance that the page gives: the milliseconds that are left, and the share of the time that
 * may be spent.
 */
export interface Allowed {
  readonly leftMs: number;
  readonly share: number;
}

export interface AllowancePorts {
  sleep(ms: number): Promise<void>;
  /** Called after each turn with the time that it took. */
  spent(ms: number): void;
  readonly clock?: Clock;
}

/**
 * Counts the time spent in turns, that is computing, and rests after each so that the share is
 * kept. The caller asks `isLeft` before each turn; a turn that has begun is finished.
 */
export class Allowance {
  #allowed: Allowed;
  readonly #ports: AllowancePorts;

  constructor(allowed: Allowed, ports: AllowancePorts) {
    this.#allowed = allowed;
    this.#ports = ports;
  }

  get isLeft(): boolean {
    return this.#allowed.leftMs > 0;
  }

  allow(allowed: Allowed): void {
    this.#allowed = allowed;
  }

  counted(withTurn: WithTurn): WithTurn {
    const clock = this.#ports.clock ?? now;
    return async (work) => {
      let tookMs = 0;
      try {
        return await withTurn(async () => {
          const began = clock();
          try {
            return await work();
          } finally {
            tookMs = clock() - began;
          }
        });
      } finally {
        this.#spend(tookMs);
        await this.#rest(tookMs);
      }
    };
  }

  #spend(ms: number): void {
    const { leftMs, share } = this.#allowed;
    this.#allowed = { leftMs: Math.max(leftMs - ms, 0), share };
    this.#ports.spent(ms);
  }

  async #rest(ms: number): Promise<void> {
    const { share } = this.#allowed;
    if (share < 1) await this.#ports.sleep(ms * (1 / share - 1));
  }
}
