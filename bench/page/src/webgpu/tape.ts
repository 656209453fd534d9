/**
 * A dispatch that a framework asks of the GPU, recorded where its call passes the API. Encoded
 * again, many in one pass, dispatches can be timed as our own kernels are, whatever the framework
 * does around them.
 */
export interface Dispatched {
  /** The label of its shader. */
  readonly label: string;
  readonly pipeline: GPUComputePipeline;
  readonly groups: ReadonlyMap<number, BoundGroup>;
  readonly workgroups: readonly [number, number, number];
}

interface BoundGroup {
  readonly group: GPUBindGroup;
  readonly offsets: readonly number[];
}

/** The pipeline and the bind groups that were last set in a pass. */
interface Bound {
  pipeline: GPUComputePipeline | null;
  readonly groups: Map<number, BoundGroup>;
}

const labels = new WeakMap<GPUComputePipeline, string>();
const bound = new WeakMap<GPUComputePassEncoder, Bound>();
let tape: Dispatched[] | null = null;

function boundIn(pass: GPUComputePassEncoder): Bound {
  const known = bound.get(pass);
  if (known !== undefined) return known;
  const fresh: Bound = { pipeline: null, groups: new Map() };
  bound.set(pass, fresh);
  return fresh;
}

function listenToPipelines(): void {
  const devices = GPUDevice.prototype;
  const { createComputePipeline, createComputePipelineAsync } = devices;
  devices.createComputePipeline = function (descriptor) {
    const pipeline = createComputePipeline.call(this, descriptor);
    labels.set(pipeline, descriptor.compute.module.label);
    return pipeline;
  };
  devices.createComputePipelineAsync = async function (descriptor) {
    const pipeline = await createComputePipelineAsync.call(this, descriptor);
    labels.set(pipeline, descriptor.compute.module.label);
    return pipeline;
  };
}

/** To be called once, before any framework starts. */
export function listen(): void {
  listenToPipelines();
  const passes = GPUComputePassEncoder.prototype;
  const { setPipeline, setBindGroup, dispatchWorkgroups } = passes;
  passes.setPipeline = function (pipeline): undefined {
    boundIn(this).pipeline = pipeline;
    return setPipeline.call(this, pipeline);
  };
  passes.setBindGroup = function (...given: unknown[]): undefined {
    const [index, group, offsets = []] = given as [number, GPUBindGroup, number[]?];
    boundIn(this).groups.set(index, { group, offsets: [...offsets] });
    return Reflect.apply(setBindGroup, this, given);
  };
  passes.dispatchWorkgroups = function (x, y = 1, z = 1): undefined {
    const { pipeline, groups } = boundIn(this);
    if (pipeline !== null && tape !== null) {
      const label = labels.get(pipeline) ?? "";
      tape.push({ label, pipeline, groups: new Map(groups), workgroups: [x, y, z] });
    }
    return dispatchWorkgroups.call(this, x, y, z);
  };
}

/** The dispatches while `work` ran. */
export async function recorded(work: () => Promise<void>): Promise<readonly Dispatched[]> {
  const own: Dispatched[] = [];
  tape = own;
  try {
    await work();
  } finally {
    tape = null;
  }
  return own;
}

export function replay(pass: GPUComputePassEncoder, dispatches: readonly Dispatched[]): void {
  for (const { pipeline, groups, workgroups } of dispatches) {
    pass.setPipeline(pipeline);
    for (const [index, { group, offsets }] of groups) pass.setBindGroup(index, group, offsets);
    pass.dispatchWorkgroups(...workgroups);
  }
}
