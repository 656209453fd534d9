/** What the page asks of the zoo and of its GPU, in order. */
{
  globalThis.order = [];
  const before = (type, name, note) => {
    const made = type.prototype?.[name] ?? type[name];
    (type.prototype ?? type)[name] = function (...given) {
      note(...given);
      return made.apply(this, given);
    };
  };
  before(GPUAdapter, "requestDevice", () => order.push("device"));
  before(globalThis, "fetch", (url) => {
    const [, found] = `${url}`.match(/v1\/models\/small\/.*%3A(wasm|webgpu)/) ?? [];
    if (found) order.push(found);
  });
}
