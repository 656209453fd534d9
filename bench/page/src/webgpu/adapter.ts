/** The adapter, as a page sees it, and a device with all that it has. */
import type { GpuAdapterFacts } from "./request.js";

export async function adapter(): Promise<GPUAdapter> {
  const found = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  if (found == null) throw new Error("this browser has no WebGPU adapter");
  return found;
}

/** Limits are getters of the prototype, so they are enumerated, not spread. */
function limitsOf(limits: GPUSupportedLimits): Record<string, number> {
  const found: Record<string, number> = {};
  for (const name in limits) {
    const value = Reflect.get(limits, name);
    if (typeof value === "number") found[name] = value;
  }
  return found;
}

export function factsOf({ info, features, limits }: GPUAdapter): GpuAdapterFacts {
  return {
    vendor: info.vendor,
    architecture: info.architecture,
    subgroupMinSize: info.subgroupMinSize,
    subgroupMaxSize: info.subgroupMaxSize,
    features: [...features].sort(),
    limits: limitsOf(limits),
  };
}

const WANTED = ["timestamp-query", "shader-f16", "subgroups"] as const;

export async function deviceOf(found: GPUAdapter): Promise<GPUDevice> {
  const { maxBufferSize, maxStorageBufferBindingSize } = found.limits;
  return found.requestDevice({
    requiredFeatures: WANTED.filter((name) => found.features.has(name)),
    requiredLimits: { maxBufferSize, maxStorageBufferBindingSize },
  });
}
