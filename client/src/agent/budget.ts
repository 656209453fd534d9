/** How much a visitor lends in a day, as it is kept in the browser. */

/** Share of the time between two bursts that is spent measuring. */
export const INTENSITIES = { gentle: 0.25, normal: 0.5, full: 1 } as const;
export type Intensity = keyof typeof INTENSITIES;

export interface Budget {
  /** Of measuring in a day; `Infinity` for browsers that a driver runs. */
  readonly minutes: number;
  readonly intensity: Intensity;
}

export interface Spent {
  /** `2026-11-21`, where the device is. */
  readonly day: string;
  readonly ms: number;
}

export const DEFAULT_BUDGET: Budget = { minutes: 15, intensity: "normal" };
export const UNLIMITED: Budget = { minutes: Number.POSITIVE_INFINITY, intensity: "full" };
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

/** The default where the note is none of ours. */
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

/** What was spent on `day`: nothing, when the note is of another day. */
export function parseSpent(note: string | null, day: string): Spent {
  const { day: noted, ms } = parsed(note);
  return { day, ms: noted === day && typeof ms === "number" && ms > 0 ? ms : 0 };
}

export const budgetMs = ({ minutes }: Budget): number => minutes * 60_000;

export const leftMs = (budget: Budget, { ms }: Spent): number => Math.max(budgetMs(budget) - ms, 0);
