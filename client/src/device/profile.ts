import { wasmFeatures } from "../engine/features.js";
import type { Peaks, ProbeResult } from "../probe/probe.js";
import { SUITE, USUAL_RHO } from "../probe/suite.js";
import {
  deviceClass,
  deviceId,
  type Engine,
  type Hardware,
  type HardwareReading,
  readEngine,
  readHardware,
} from "./hardware.js";
import type { Notebook } from "./notebook.js";

/** A profile has what the browser tells and what the probe measured. */
export interface DeviceProfile {
  readonly hardware: Hardware;
  readonly engine: Engine;
  readonly wasmFeatures: readonly string[];
  readonly rho: string;
  readonly peaks: Peaks;
  /** True if ρ and the peaks will be the same at the next visit. */
  readonly settled: boolean;
  readonly deviceId: string;
  readonly deviceClass: string;
}

/** A first `requestAdapter` starts the browser's GPU process. */
const HARDWARE_LIMIT_MS = 1_000;

/**
 * The value noted under `key` where it is final, or the value made now. One that is not final is
 * noted, too, for those who cannot wait for a better one.
 */
export async function noted<T>(
  notebook: Notebook,
  key: string,
  make: () => Promise<T>,
  isFinal: (value: T) => boolean,
): Promise<T> {
  const note = notebook.read(key);
  const before: T | null = note && JSON.parse(note);
  if (before !== null && isFinal(before)) return before;
  const value = await make();
  notebook.write(key, JSON.stringify(value));
  return value;
}

/** The register-only limit of one core in GFLOP/s, measured now. About 50 ms. */
export async function measurePeakGflops(): Promise<number> {
  const { measurePeaks } = await import("../probe/probe.js");
  return peakOf(await measurePeaks(wasmFeatures()));
}

/** Register-only limit of one core in GFLOP/s, whichever way is faster. */
export const peakOf = ({ mulAdd, fma }: Peaks): number => Math.max(mulAdd, fma);

/** Runs timed work where nothing else is timing. */
export type Alone = <T>(work: () => Promise<T>) => Promise<T>;

export const engineKey = ({ name, version }: Engine): string => `${name}-${version}`;

export const probeKey = (engine: Engine): string => `${SUITE}:${engineKey(engine)}`;

/** Reads what the browser tells of the hardware, once per engine version. */
export async function notedHardware(notebook: Notebook): Promise<Hardware> {
  const read = (): Promise<HardwareReading> => readHardware(HARDWARE_LIMIT_MS);
  const key = `hardware:${probeKey(readEngine())}`;
  return (await noted(notebook, key, read, ({ complete }) => complete)).hardware;
}

/**
 * The class of a device as the last probe found it, settled or not; one that is not probed yet has
 * the ρ of most devices.
 */
export async function usualClass(notebook: Notebook): Promise<string> {
  const note = notebook.read(`probe:${probeKey(readEngine())}`);
  const rho = note === null ? USUAL_RHO : (JSON.parse(note) as ProbeResult).rho;
  return deviceClass(deviceId(await notedHardware(notebook)), rho, wasmFeatures());
}

/**
 * Describes this device. Slow parts (GPU adapter, probe of 100 to 250 ms, which is fetched) run once
 * per engine version and are noted; so the device class is the same at every page load.
 */
export async function readProfile(
  notebook: Notebook,
  alone: Alone = (work) => work(),
): Promise<DeviceProfile> {
  const engine = readEngine();
  const features = wasmFeatures();
  const measure = async (): Promise<ProbeResult> => {
    const { probe } = await import("../probe/probe.js");
    return alone(() => probe(features));
  };
  const [hardware, { rho, peaks, settled }] = await Promise.all([
    notedHardware(notebook),
    noted(notebook, `probe:${probeKey(engine)}`, measure, ({ settled }) => settled),
  ]);
  const id = deviceId(hardware);
  return {
    hardware,
    engine,
    wasmFeatures: features,
    rho,
    peaks,
    settled,
    deviceId: id,
    deviceClass: deviceClass(id, rho, features),
  };
}
