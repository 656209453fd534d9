/**
 * What a model's worker asks of WebGPU is counted, and told when the page asks. That of a measurer,
 * and those that prepare weights, say nothing.
 */
{
  const count = `{
    const counts = { submissions: 0, passes: 0, bindGroups: 0, pipelines: 0, staging: 0 };
    // Those that were not destroyed.
    counts.uniforms = 0;
    const uniforms = new WeakSet();
    counts.atOnce = 0;
    const before = (type, name, look) => {
      const made = type.prototype[name];
      type.prototype[name] = function (...given) {
        const found = made.apply(this, given);
        look(given[0], found);
        return found;
      };
    };
    let compiling = 0;
    before(GPUQueue, "submit", (buffers) => { counts.submissions += buffers.length; });
    before(GPUCommandEncoder, "beginComputePass", () => { counts.passes += 1; });
    before(GPUDevice, "createBindGroup", () => { counts.bindGroups += 1; });
    before(GPUDevice, "createBuffer", ({ usage }, made) => {
      counts.staging += usage & GPUBufferUsage.MAP_READ ? 1 : 0;
      if ((usage & GPUBufferUsage.UNIFORM) === 0) return;
      counts.uniforms += 1;
      uniforms.add(made);
    });
    const { destroy } = GPUBuffer.prototype;
    GPUBuffer.prototype.destroy = function () {
      if (uniforms.delete(this)) counts.uniforms -= 1;
      destroy.call(this);
    };
    before(GPUDevice, "createComputePipelineAsync", (_, made) => {
      counts.pipelines += 1;
      counts.atOnce = Math.max(counts.atOnce, (compiling += 1));
      made.finally(() => { compiling -= 1; });
    });
    const channel = new BroadcastChannel("count");
    if (self.name === "kernelzoo model") {
      channel.onmessage = ({ data }) => { if (data === "tell") channel.postMessage(counts); };
    }
  }`;
  globalThis.Blob = class extends Blob {
    constructor(parts, options) {
      super([count, ...parts], options);
    }
  };
  const channel = new BroadcastChannel("count");
  globalThis.counted = () =>
    new Promise((resolve) => {
      channel.onmessage = ({ data }) => {
        if (data !== "tell") resolve(data);
      };
      channel.postMessage("tell");
    });
}
