/**
 * What tells that a device should be left in peace. No browser says that a battery saver is on;
 * those that have the Battery Status API (Chromium) say how full the battery is, and savers switch
 * themselves on at a fifth. Compute Pressure is Chromium's, too, and wants a secure page.
 */
import type { Pauses } from "./pauses.js";

const LOW = 0.2;
const EVERY_MS = 2_000;

interface Battery extends EventTarget {
  readonly charging: boolean;
  readonly level: number;
}

interface PressureRecord {
  readonly state: "nominal" | "fair" | "serious" | "critical";
}

interface PressureObserver {
  observe(source: "cpu", options: { readonly sampleInterval: number }): Promise<void>;
}

/** What TypeScript's DOM library lacks; absent in other browsers. */
interface Senses {
  readonly PressureObserver?: new (
    told: (records: readonly PressureRecord[]) => void,
  ) => PressureObserver;
}

const battery = (): Promise<Battery> | undefined =>
  (navigator as { getBattery?: () => Promise<Battery> }).getBattery?.();

async function watchBattery(pauses: Pauses): Promise<void> {
  const found = await battery();
  if (found === undefined) return;
  const look = (): void => pauses.set("battery", !found.charging && found.level <= LOW);
  found.addEventListener("chargingchange", look);
  found.addEventListener("levelchange", look);
  look();
}

async function watchPressure(pauses: Pauses): Promise<void> {
  const { PressureObserver } = globalThis as Senses;
  if (PressureObserver === undefined) return;
  const observer = new PressureObserver((records) => {
    const last = records.at(-1);
    if (last !== undefined) pauses.set("pressure", last.state === "critical");
  });
  await observer.observe("cpu", { sampleInterval: EVERY_MS });
}

/** A sense that the browser denies is one that it has not. */
export function watchStrain(pauses: Pauses): void {
  watchBattery(pauses).catch(() => undefined);
  watchPressure(pauses).catch(() => undefined);
}
