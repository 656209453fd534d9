import { wasmFeatures } from "../engine/features.js";
import { PROBES, SUITE } from "../probe/modules.js";
import { type ProbeResult, probe } from "../probe/probe.js";
import { deviceClass, deviceId } from "./device-class.js";
import { type Engine, readEngine } from "./engine.js";
import { type Hardware, type HardwareReading, readHardware } from "./hardware.js";
import type { Notebook } from "./notebook.js";

/** What the browser tells and what the probe measured. `peakGflops` is of one core, float32. */
export interface DeviceProfile {
  readonly hardware: Hardware;
  readonly engine: Engine;
  readonly wasmFeatures: readonly string[];
  readonly rho: string;
  readonly peakGflops: number;
  readonly deviceId: string;
  readonly deviceClass: string;
}

/** A first `requestAdapter` starts the browser's GPU process. */
const HARDWARE_LIMIT_MS = 1_000;

/** The note under `key`, or the value made now, noted where it is worth keeping. */
async function noted<T>(
  notebook: Notebook,
  key: string,
  make: () => Promise<T>,
  keep: (value: T) => boolean,
): Promise<T> {
  const note = notebook.read(key);
  if (note !== null) return JSON.parse(note) as T;
  const value = await make();
  if (keep(value)) notebook.write(key, JSON.stringify(value));
  return value;
}

/** The register-only limit of one core in GFLOP/s, measured now. About 100 ms. */
export async function measurePeakGflops(): Promise<number> {
  return (await probe(PROBES, SUITE, wasmFeatures())).peakGflops;
}

/**
 * Describes this device. Slow parts (GPU adapter, probe of about 100 ms) run once per engine
 * version and are noted; so the device class is the same at every page load. `alone` runs the
 * probe where nothing else is timing.
 */
export async function readProfile(
  notebook: Notebook,
  alone: (work: () => Promise<ProbeResult>) => Promise<ProbeResult> = (work) => work(),
): Promise<DeviceProfile> {
  const engine = readEngine();
  const features = wasmFeatures();
  const key = `${engine.name}-${engine.version}`;
  const measure = (): Promise<ProbeResult> => alone(() => probe(PROBES, SUITE, features));
  const read = (): Promise<HardwareReading> => readHardware(HARDWARE_LIMIT_MS);
  const [{ hardware }, { rho, peakGflops }] = await Promise.all([
    noted(notebook, `hardware:${key}`, read, ({ complete }) => complete),
    noted(notebook, `probe:${SUITE}:${key}`, measure, () => true),
  ]);
  const id = deviceId(hardware);
  return {
    hardware,
    engine,
    wasmFeatures: features,
    rho,
    peakGflops,
    deviceId: id,
    deviceClass: deviceClass(id, rho, features),
  };
}
