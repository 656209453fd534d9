/** Features of the target `webgpu`, as `kernelzoo/domain/target.py` lists them. */

/** The features and limits that adapters and devices tell alike. */
export type Capabilities = Pick<GPUAdapter, "features" | "limits">;

type LimitName = Exclude<keyof GPUSupportedLimits, "__brand">;

/** Features of kernels that are features of WebGPU too. */
const NAMED = ["shader-f16", "subgroups"] as const satisfies readonly GPUFeatureName[];

const KIB = 1024;
const MIB = KIB * KIB;

const invocations = (count: number): LimitStep => ({
  maxComputeInvocationsPerWorkgroup: count,
  maxComputeWorkgroupSizeX: count,
});

/** The limits that a device must be given to reach the step. */
type LimitStep = Readonly<Partial<Record<LimitName, number>>>;

/** The highest step of each limit stands last: a device is asked for the last that is reached. */
const STEPS: Readonly<Record<string, LimitStep>> = {
  "binding-256m": { maxStorageBufferBindingSize: 256 * MIB, maxBufferSize: 256 * MIB },
  "invocations-512": invocations(512),
  "invocations-1024": invocations(1024),
  "workgroup-memory-32k": { maxComputeWorkgroupStorageSize: 32 * KIB },
  "workgroup-memory-48k": { maxComputeWorkgroupStorageSize: 48 * KIB },
  "workgroup-memory-64k": { maxComputeWorkgroupStorageSize: 64 * KIB },
};

const entriesOf = (step: LimitStep): readonly [LimitName, number][] =>
  Object.entries(step) as [LimitName, number][];

const reached = ({ limits }: Capabilities): readonly [string, LimitStep][] =>
  Object.entries(STEPS).filter(([, step]) =>
    entriesOf(step).every(([limit, value]) => (limits[limit] ?? 0) >= value),
  );

/**
 * The features that kernels may require of such a device, sorted. `language` are extensions of WGSL,
 * which are those of a browser and not of an adapter.
 */
export function gpuFeatures(
  adapter: Capabilities,
  language: ReadonlySet<string> | undefined = globalThis.navigator?.gpu?.wgslLanguageFeatures,
): readonly string[] {
  const steps = reached(adapter).map(([name]) => name);
  const dots = language?.has("packed_4x8_integer_dot_product") ? ["dot-of-bytes"] : [];
  return [...NAMED.filter((name) => adapter.features.has(name)), ...dots, ...steps].sort();
}

/** An index of 32 bits reaches so many bytes, in whole words. */
const MOST_BYTES = 2 ** 32 - 4;
const BUFFER_LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
] as const;

/** Some browsers tell of more than a number of JavaScript holds, which no request may name. */
const bufferLimits = ({ limits }: Capabilities): Record<string, number> =>
  Object.fromEntries(BUFFER_LIMITS.map((name) => [name, Math.min(limits[name], MOST_BYTES)]));

/**
 * Asks for what kernels may require and no more, so that devices of one class are alike. Buffers may
 * be as large and as many as the adapter has them: what a model's largest tensor takes, its plan
 * tells, and a product of integers with a bias and a residual reads eight and writes one.
 */
export function deviceDescriptor(adapter: Capabilities): GPUDeviceDescriptor {
  return {
    label: "kernelzoo",
    requiredFeatures: ([...NAMED, "timestamp-query"] as const).filter((name) =>
      adapter.features.has(name),
    ),
    requiredLimits: Object.assign(
      {},
      ...reached(adapter).map(([, step]) => step),
      bufferLimits(adapter),
    ) as Record<string, number>,
  };
}
