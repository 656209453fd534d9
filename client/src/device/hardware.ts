import { requestAdapter } from "../gpu/adapter.js";
import { userAgentData } from "./engine.js";

/** The part of a profile that does not change with the browser; unknown text is ''. */
export interface Hardware {
  readonly cpu_architecture: string;
  readonly logical_cores: number;
  readonly gpu_vendor: string;
  readonly gpu_architecture: string;
}

/** Printable ASCII, at most 64 characters: what the gateway takes and the device id hashes. */
export function plainText(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, "").slice(0, 64);
}

/** As `x86-64` or `arm-64`; '' in Firefox, Safari and on plain http. */
async function cpuArchitecture(): Promise<string> {
  const hints = await userAgentData()?.getHighEntropyValues(["architecture", "bitness"]);
  return [hints?.architecture, hints?.bitness].filter(Boolean).join("-");
}

type AdapterInfo = Pick<GPUAdapterInfo, "vendor" | "architecture">;

const NO_GPU: AdapterInfo = { vendor: "", architecture: "" };

/** What WebGPU's adapter tells. Rejects without WebGPU. */
async function gpuInfo(): Promise<AdapterInfo> {
  return (await requestAdapter()).info ?? NO_GPU;
}

/** `complete` is false when a part took too long and was left out: the next visit may know it. */
export interface HardwareReading {
  readonly hardware: Hardware;
  readonly complete: boolean;
}

const LATE = Symbol("late");

/** `promise`, `fallback` when it fails, or `LATE` when it takes longer than `limitMs`. */
async function within<T>(promise: Promise<T>, limitMs: number, fallback: T) {
  const late = new Promise<typeof LATE>((resolve) => setTimeout(resolve, limitMs, LATE));
  return Promise.race([promise.catch(() => fallback), late]);
}

/** Asks the browser for its hardware; never fails, and takes at most `limitMs`. */
export async function readHardware(limitMs: number): Promise<HardwareReading> {
  const [cpu, adapter] = await Promise.all([
    within(cpuArchitecture(), limitMs, ""),
    within(gpuInfo(), limitMs, NO_GPU),
  ]);
  const gpu = adapter === LATE ? NO_GPU : adapter;
  const hardware = {
    cpu_architecture: cpu === LATE ? "" : plainText(cpu),
    logical_cores: Math.min(Math.max(navigator.hardwareConcurrency ?? 1, 1), 4096),
    gpu_vendor: plainText(gpu.vendor),
    gpu_architecture: plainText(gpu.architecture),
  };
  return { hardware, complete: cpu !== LATE && adapter !== LATE };
}
