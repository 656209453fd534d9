/** The adapter, as a page sees it. */
import type { GpuAdapterFacts } from "./request.js";

/** Limits are getters of the prototype, so they are enumerated, not spread. */
function limitsOf(limits: GPUSupportedLimits): Record<string, number> {
  const found: Record<string, number> = {};
  for (const name in limits) {
    const value: unknown = Reflect.get(limits, name);
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
