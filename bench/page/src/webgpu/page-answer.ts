/** Collects what a page with WebGPU says of itself, beside what it measured. */
import { requestAdapter } from "../../../../client/src/backend/webgpu/device.js";
import type { GpuAdapterFacts, PageAnswer } from "./request.js";

/** Limits are getters of the prototype, so they are enumerated, not spread. */
function limitsOf(limits: GPUSupportedLimits): Record<string, number> {
  const found: Record<string, number> = {};
  for (const name in limits) {
    const value: unknown = Reflect.get(limits, name);
    if (typeof value === "number") found[name] = value;
  }
  return found;
}

/** The adapter, as a page sees it. */
function factsOf({ info, features, limits }: GPUAdapter): GpuAdapterFacts {
  return {
    vendor: info.vendor,
    architecture: info.architecture,
    subgroupMinSize: info.subgroupMinSize,
    subgroupMaxSize: info.subgroupMaxSize,
    features: [...features].sort(),
    limits: limitsOf(limits),
  };
}

/** `commit`: that of the job. */
export async function pageAnswer(
  commit: string,
  peers: Readonly<Record<string, string>>,
): Promise<PageAnswer> {
  return {
    commit,
    date: new Date().toISOString(),
    browser: navigator.userAgent,
    adapter: factsOf(await requestAdapter()),
    peers,
  };
}

/** By their names, the releases of engines that are called `NAME RELEASE`; others are left out. */
export function releasesOf(engines: Iterable<string>): Readonly<Record<string, string>> {
  const told = [...engines].map((name) => name.split(" "));
  return Object.fromEntries(told.filter(([, release]) => release !== undefined));
}
