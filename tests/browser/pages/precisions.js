/** Opens a model by several precisions, one after the other. */
globalThis.opened = async (url, name, orders, x) => {
  const { KernelZoo, KernelZooError } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url, { backend: "wasm" });
  const tried = async (order) => {
    try {
      const model = await zoo.model(name, order);
      await model.complete();
      const { precision, precisionReason, precisions } = model.plan;
      const { y } = await model.run({ x: Float32Array.from(x) });
      await model.dispose();
      return { precision, precisionReason, precisions, y: [...y] };
    } catch (error) {
      return { refused: `${error instanceof KernelZooError && error.stage}: ${error.message}` };
    }
  };
  const found = [];
  for (const order of orders) found.push(await tried(order));
  return found;
};
