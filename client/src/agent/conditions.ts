/**
 * The conditions under which an agent measures: obstacles of the browser, reasons to pause that
 * come and go by themselves, and the gate that holds the work while there is one.
 */
import { wasmFeatures } from "../engine/features.js";

/** Something about this browser that a visitor should know before lending it. */
export interface Obstacle {
  readonly id: "no-simd" | "insecure" | "not-isolated";
  /** Nothing can be measured here. */
  readonly blocks: boolean;
}

export interface Browser {
  readonly simd: boolean;
  readonly secure: boolean;
  readonly isolated: boolean;
}

export const thisBrowser = (): Browser => ({
  simd: typeof WebAssembly === "object" && wasmFeatures().includes("simd128"),
  secure: isSecureContext,
  isolated: crossOriginIsolated,
});

/** The obstacles of a browser; the page has a notice for each id. */
export function obstacles({ simd, secure, isolated }: Browser): readonly Obstacle[] {
  if (!simd) return [{ id: "no-simd", blocks: true }];
  if (!secure) return [{ id: "insecure", blocks: false }];
  return isolated ? [] : [{ id: "not-isolated", blocks: false }];
}

/** Why measuring waits, as the visitor is told. */
export const PAUSES = {
  hand: "Paused",
  hidden: "Paused while this page is hidden",
  battery: "Paused: the battery is low and not charging",
  pressure: "Paused: this device is busy with something else",
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
}

/** Compute Pressure, which Chromium has in secure pages; TypeScript's DOM library lacks it. */
interface WithPressure {
  readonly PressureObserver?: new (
    told: (records: readonly PressureRecord[]) => void,
  ) => PressureObserver;
}

/** The Battery Status API, which Chromium alone has. */
const battery = (): Promise<Battery> | undefined =>
  (navigator as { getBattery?: () => Promise<Battery> }).getBattery?.();

async function watchBattery(pauses: Pauses): Promise<void> {
  const found = await battery();
  if (found === undefined) return;
  const look = (): void => pauses.set("battery", !found.charging && found.level <= LOW_LEVEL);
  found.addEventListener("chargingchange", look);
  found.addEventListener("levelchange", look);
  look();
}

async function watchPressure(pauses: Pauses): Promise<void> {
  const { PressureObserver } = globalThis as WithPressure;
  if (PressureObserver === undefined) return;
  const observer = new PressureObserver((records) => {
    const last = records.at(-1);
    if (last !== undefined) pauses.set("pressure", last.state === "critical");
  });
  await observer.observe("cpu", { sampleInterval: PRESSURE_EVERY_MS });
}

/** Pauses while the battery is low or the processor busy, where the browser tells of them. */
export function watchDevice(pauses: Pauses): void {
  watchBattery(pauses).catch(() => undefined);
  watchPressure(pauses).catch(() => undefined);
}

/** A gate that pauses an agent between two pieces of work. */
export interface Gate {
  readonly isOpen: boolean;
  /** Resolves at once while open, else when the gate opens again. */
  pass(): Promise<void>;
  open(): void;
  close(): void;
}

export function gate(): Gate {
  let opened = Promise.resolve();
  let release: (() => void) | null = null;
  return {
    get isOpen() {
      return release === null;
    },
    pass: () => opened,
    close() {
      if (release !== null) return;
      opened = new Promise((resolve) => {
        release = resolve;
      });
    },
    open() {
      release?.();
      release = null;
    },
  };
}
