/** Reasons to pause measuring that come and go by themselves. */

/** The reasons why measuring waits, as the visitor is told them. */
export const PAUSES = {
  hand: "Paused",
  hidden: "Paused while this page is hidden",
  battery: "Paused: the battery is low and not charging",
  pressure: "Paused: this device is busy with something else",
  data: "Paused: the browser is to save data",
  budget: "Done for today: the budget is spent",
} as const;
export type Pause = keyof typeof PAUSES;

export interface Pauses {
  readonly because: ReadonlySet<Pause>;
  set(reason: Pause, holds: boolean): void;
}

/** Tells `changed` whenever a reason comes or goes. */
export function pauses(changed: () => void): Pauses {
  const because = new Set<Pause>();
  return {
    because,
    set(reason, holds) {
      if (because.has(reason) === holds) return;
      if (holds) because.add(reason);
      else because.delete(reason);
      changed();
    },
  };
}

/**
 * The first reason that holds, in the order of `PAUSES`, which begins with what a visitor can
 * change.
 */
export const mainPause = (because: ReadonlySet<Pause>): Pause | null =>
  (Object.keys(PAUSES) as Pause[]).find((reason) => because.has(reason)) ?? null;

/** No browser says that a battery saver is on; savers switch themselves on at a fifth. */
const LOW_LEVEL = 0.2;
const PRESSURE_EVERY_MS = 2_000;

interface Battery extends EventTarget {
  readonly charging: boolean;
  readonly level: number;
}

interface PressureRecord {
  readonly state: "nominal" | "fair" | "serious" | "critical";
}

interface PressureObserver {
  observe(source: "cpu", options: { readonly sampleInterval: number }): Promise<void>;
  disconnect(): void;
}

/** Compute Pressure, which Chromium has in secure pages; TypeScript's DOM library lacks it. */
interface WithPressure {
  readonly PressureObserver?: new (
    changed: (records: readonly PressureRecord[]) => void,
  ) => PressureObserver;
}

/** The Battery Status API, which Chromium alone has. */
const battery = (): Promise<Battery> | undefined =>
  (navigator as { getBattery?: () => Promise<Battery> }).getBattery?.();

async function watchBattery(pauses: Pauses, signal: AbortSignal): Promise<void> {
  const power = await battery();
  if (power === undefined) return;
  const look = (): void => pauses.set("battery", !power.charging && power.level <= LOW_LEVEL);
  power.addEventListener("chargingchange", look, { signal });
  power.addEventListener("levelchange", look, { signal });
  look();
}

async function watchPressure(pauses: Pauses, signal: AbortSignal): Promise<void> {
  const { PressureObserver } = globalThis as WithPressure;
  if (PressureObserver === undefined) return;
  const observer = new PressureObserver((records) => {
    const last = records.at(-1);
    if (last !== undefined) pauses.set("pressure", last.state === "critical");
  });
  signal.addEventListener("abort", () => observer.disconnect());
  await observer.observe("cpu", { sampleInterval: PRESSURE_EVERY_MS });
}

/** Network Information, which Chromium alone has. */
interface Connection extends EventTarget {
  readonly saveData?: boolean;
}

function watchData(pauses: Pauses, signal: AbortSignal): void {
  const { connection } = navigator as { readonly connection?: Connection };
  const look = (): void => pauses.set("data", connection?.saveData === true);
  connection?.addEventListener("change", look, { signal });
  look();
}

/** Never aborted: an agent watches for as long as its page lives. */
const ALWAYS = new AbortController().signal;

/**
 * Pauses while the battery is low, the processor busy or data to be saved, where the browser tells
 * of it.
 */
export function watchDevice(pauses: Pauses, signal = ALWAYS): void {
  watchBattery(pauses, signal).catch(() => undefined);
  watchPressure(pauses, signal).catch(() => undefined);
  watchData(pauses, signal);
}

/** Pauses while the page is hidden. */
export function watchPage(pauses: Pauses, signal = ALWAYS): void {
  const look = (): void => pauses.set("hidden", document.hidden);
  document.addEventListener("visibilitychange", look, { signal });
  look();
}
