/** The device of a model's worker is lost when the page says so. */
{
  const lose = `{
    const request = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...given) {
      const device = await request.apply(this, given);
      new BroadcastChannel("lose").onmessage = () => device.destroy();
      return device;
    };
  }`;
  globalThis.Blob = class extends Blob {
    constructor(parts, options) {
      super([lose, ...parts], options);
    }
  };
}
