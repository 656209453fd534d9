/** The device of a model's worker has buffers of so many bytes, and binds so many, at the most. */
{
  const limit = `{
    const [most, count] = ${JSON.stringify(gpuLimits)};
    const request = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...given) {
      const device = await request.apply(this, given);
      const limits = { maxBufferSize: most, maxStorageBufferBindingSize: most };
      limits.maxStorageBuffersPerShaderStage = count;
      for (const name in device.limits) limits[name] ??= device.limits[name];
      Object.defineProperty(device, "limits", { value: limits });
      return device;
    };
    const { createBuffer } = GPUDevice.prototype;
    GPUDevice.prototype.createBuffer = function (asked) {
      const bound = asked.usage & GPUBufferUsage.STORAGE;
      if (bound && asked.size > most) throw new RangeError("a buffer of " + asked.size + " bytes");
      return createBuffer.call(this, asked);
    };
  }`;
  globalThis.Blob = class extends Blob {
    constructor(parts, options) {
      super([limit, ...parts], options);
    }
  };
}
