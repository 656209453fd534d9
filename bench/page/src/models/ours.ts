/** The zoo's runtime, as a page loads it: the SDK's own file, and a model of a static host. */
import type { KernelZoo } from "../../../../client/src/sdk/zoo.js";
import { type Engine, type Network, type Values, valuesOf } from "./network.js";

const SDK = "/client/sdk.js";

interface Sdk {
  readonly KernelZoo: typeof KernelZoo;
}

export async function openOurs({ zoo: file, inputs }: Network, threads: number): Promise<Engine> {
  if (file === null) throw new Error("the zoo has no such network");
  const { KernelZoo }: Sdk = await import(SDK);
  const zoo = await KernelZoo.open(new URL("/zoo/bundle.json", location.origin), { threads });
  // The benchmark itself compares outputs; the check at the first load is one more run.
  const opened = zoo.model(file, { check: false });
  const [model, feeds] = await Promise.all([opened, valuesOf(inputs)]);
  const run = async (): Promise<Values> => (await model.run(feeds)) as Values;
  const outputs = await run();
  return {
    name: "kernelzoo",
    threads: model.plan.threads,
    outputs,
    run,
    dispose: async () => {
      await model.dispose();
      zoo.dispose();
    },
  };
}
