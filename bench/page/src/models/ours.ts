/** The zoo's runtime, as a page loads it: the SDK's own file, and a model of a static host. */
import type { KernelZoo } from "../../../../client/src/sdk/zoo.js";
import { now } from "../../../../client/src/timing/clock.js";
import { type Engine, type Entries, type Network, type Values, valuesOf } from "./network.js";
import { watchSwitching } from "./switching.js";

const SDK = "/client/sdk.js";

interface Sdk {
  readonly KernelZoo: typeof KernelZoo;
}

export const loadSdk = (): Promise<Sdk> => import(SDK);

/** Other files of a network: as what a page asks for it. */
const FORMS = {
  single: ".single",
  int8: "-int8",
  defaults: "-defaults",
  webgpu: "-webgpu",
} as const;

/**
 * Opens the network as a page does that asks for nothing else, or as `asked`: `keep` a graph, open
 * that `graph` by its key where it is kept, take kernels for so many `runs`, fetch weights as
 * `int8`, run on the `whole` model alone, each kernel in a `single` module, on `defaults` alone, or
 * on `webgpu`.
 */
export async function openOurs(
  network: Network | Promise<Network>,
  threads: number,
  asked = new URLSearchParams(),
): Promise<Engine> {
  const sdk = loadSdk();
  const { zoo, range, inputs, constants } = await network;
  if (zoo === null) throw new Error("the zoo has no such network");
  const form = Object.entries(FORMS).find(([name]) => asked.has(name))?.[1] ?? "";
  const file = zoo.replace(/\.json$/, `${form}.json`);
  const { KernelZoo } = await sdk;
  const kernels = await KernelZoo.open(new URL("/zoo/bundle.json", location.origin), { threads });
  // The benchmark itself compares outputs; the check at the first load is one more run.
  const fetched = () =>
    kernels.model(file, {
      check: false,
      ...(asked.has("keep") || asked.has("graph") ? { save: file } : {}),
      ...(asked.has("runs") ? { runs: Number(asked.get("runs")) } : {}),
    });
  const opened = asked.has("graph") ? kernels.loadGraph(file).catch(fetched) : fetched();
  const given = inputs.filter(({ name }) => !constants.includes(name));
  const [model, values] = await Promise.all([opened, valuesOf(given)]);
  const known = new Set(model.inputs.map(({ name }) => name));
  // A plan of fixed extents has no inputs without entries, such as a cache at the first step.
  const fed = given.filter(({ name, shape }) => !shape.includes(0) || known.has(name));
  const feeds = Object.fromEntries(
    fed.map(({ name, shape }) => {
      const entries = values[name] as Entries;
      // Numbers of every size are float32 in the page.
      const data = entries instanceof Float64Array ? new Float32Array(entries) : entries;
      // A plan of several ranges asks for shapes.
      return [name, zoo === range ? { data, shape } : data];
    }),
  );
  if (asked.has("whole")) await model.complete();
  const run = async (): Promise<Values> => (await model.run(feeds)) as Values;
  const abortMs = async (afterMs: number): Promise<number | null> => {
    const stop = new AbortController();
    const ended = model.run(feeds, { signal: stop.signal }).then(
      () => null,
      () => now(),
    );
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    const asked = now();
    stop.abort();
    const rejected = await ended;
    return rejected === null ? null : rejected - asked;
  };
  const outputs = await run();
  return {
    name: "kernelzoo",
    threads: model.plan.threads,
    outputs,
    run,
    abortMs,
    kept: async () => model.saved,
    switching: () => watchSwitching(model, run),
    dispose: async () => {
      await model.dispose();
      kernels.dispose();
    },
  };
}

/** Opens the plan of a range that serves the network. */
export async function openRange(
  network: Network | Promise<Network>,
  threads: number,
  asked?: URLSearchParams,
): Promise<Engine> {
  const ranged = async (): Promise<Network> => {
    const found = await network;
    return { ...found, zoo: found.range };
  };
  return openOurs(ranged(), threads, asked);
}
