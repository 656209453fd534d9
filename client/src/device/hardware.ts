/**
 * Reads what the browser tells of its engine and hardware, and makes the device id and class of it.
 */
import { requestAdapter } from "../backend/webgpu/device.js";
import { sha256Hex } from "../engine/sha256.js";
import { after } from "../timing/clock.js";
import type { MeasuredTarget } from "../wire/types.js";

/** Browser engine, recorded beside a measurement and never part of the device id. */
export interface Engine {
  readonly name: string;
  readonly version: string;
}

interface Brand {
  readonly brand: string;
  readonly version: string;
}

/** The part of User-Agent Client Hints that is read here; TypeScript's DOM library lacks it. */
export interface UserAgentData {
  readonly brands: readonly Brand[];
  getHighEntropyValues(hints: readonly string[]): Promise<{
    readonly architecture?: string;
    readonly bitness?: string;
  }>;
}

/** Absent in Firefox and Safari, and in pages on plain http. */
export function userAgentData(): UserAgentData | undefined {
  const { navigator } = globalThis as { navigator?: { readonly userAgentData?: UserAgentData } };
  return navigator?.userAgentData;
}

/** The order matters, since Chromium's text names Safari too. */
const TOKENS = [
  { name: "Firefox", pattern: /Firefox\/(\d+)/ },
  { name: "Chromium", pattern: /Chrom(?:e|ium)\/(\d+)/ },
  { name: "Safari", pattern: /Version\/([\d.]+).*Safari/ },
  { name: "WebKit", pattern: /AppleWebKit\/([\d.]+)/ },
] as const;

/** Engine from a user-agent text, for the record alone: nothing depends on it. */
export function engineFromText(text: string): Engine {
  for (const { name, pattern } of TOKENS) {
    const version = pattern.exec(text)?.[1];
    if (version !== undefined) return { name, version };
  }
  return { name: "", version: "" };
}

export function readEngine(): Engine {
  const chromium = userAgentData()?.brands.find(({ brand }) => brand === "Chromium");
  if (chromium !== undefined) return { name: chromium.brand, version: chromium.version };
  return engineFromText(globalThis.navigator?.userAgent ?? "");
}

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

/** Answers as in `x86-64` or `arm-64`; '' in Firefox, Safari and on plain http. */
async function cpuArchitecture(): Promise<string> {
  const hints = await userAgentData()?.getHighEntropyValues(["architecture", "bitness"]);
  return [hints?.architecture, hints?.bitness].filter(Boolean).join("-");
}

type AdapterInfo = Pick<GPUAdapterInfo, "vendor" | "architecture">;

const NO_GPU: AdapterInfo = { vendor: "", architecture: "" };

/** Asks WebGPU's adapter. Rejects without WebGPU. */
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
  return Promise.race([promise.catch(() => fallback), after<typeof LATE>(limitMs, LATE)]);
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
    logical_cores: Math.min(Math.max(globalThis.navigator?.hardwareConcurrency ?? 1, 1), 4096),
    gpu_vendor: plainText(gpu.vendor),
    gpu_architecture: plainText(gpu.architecture),
  };
  return { hardware, complete: cpu !== LATE && adapter !== LATE };
}

/** 16 hex digits: SHA-256 over the sorted fields, as in `kernelzoo/domain/device.py`. */
export function deviceId(hardware: Hardware): string {
  const { cpu_architecture, gpu_architecture, gpu_vendor, logical_cores } = hardware;
  const text = JSON.stringify({ cpu_architecture, gpu_architecture, gpu_vendor, logical_cores });
  return sha256Hex(new TextEncoder().encode(text)).slice(0, 16);
}

/** `<device id>:<ρ>:<target>`: devices of one class share kernels. */
export function deviceClass(
  id: string,
  rho: string,
  features: readonly string[],
  target: MeasuredTarget = "wasm",
): string {
  return `${id}:${rho}:${[target, ...[...features].sort()].join("+")}`;
}
