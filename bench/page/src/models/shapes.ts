/** One plan of a range, given feeds of one extent after another. */
import type { Model } from "../../../../client/src/model/model.js";
import { now } from "../../../../client/src/timing/clock.js";
import { type Entries, type Fed, type Network, valuesOf } from "./network.js";
import { loadSdk } from "./ours.js";
import { openOnnxRuntimeOfAnyExtent } from "./peers.js";

/** `network` is that of the largest extent; `places` are the open axes of its inputs by their names. */
export interface ShapesAsked {
  readonly network: Network;
  readonly places: Readonly<Record<string, number>>;
  readonly extents: readonly number[];
}

export interface MixAnswer {
  /** Milliseconds for all extents together. */
  readonly oursMs: number;
  readonly peerMs: number;
}

export interface SwitchAnswer {
  /** Milliseconds of runs behind one of another extent, and of those behind one of the same. */
  readonly switchedMs: readonly number[];
  readonly stayedMs: readonly number[];
}

const WARM_RUNS = 3;

const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** Cuts the network's inputs to any extent. */
async function feedsOf({ network, places }: ShapesAsked): Promise<(extent: number) => Fed[]> {
  const values = await valuesOf(network.inputs);
  return (extent) =>
    network.inputs.map(({ name, dtype, shape }) => {
      const place = places[name] as number;
      const own = shape.map((each, i) => (i === place ? extent : each));
      return { name, dtype, shape: own, entries: values[name]?.slice(0, product(own)) as Entries };
    });
}

async function openPlan({ range }: Network) {
  const { KernelZoo } = await loadSdk();
  const kernels = await KernelZoo.open(new URL("/zoo/bundle.json", location.origin), {
    threads: 1,
  });
  const model: Model = await kernels.model(range as string, { check: false });
  const run = (feeds: readonly Fed[]) =>
    model.run(Object.fromEntries(feeds.map(({ name, entries }) => [name, entries])));
  return {
    run,
    dispose: async () => {
      await model.dispose();
      kernels.dispose();
    },
  };
}

async function timedMs(run: () => Promise<unknown>): Promise<number> {
  const start = now();
  await run();
  return now() - start;
}

/** Runs feeds of all extents on both engines in turns. */
export async function mix(asked: ShapesAsked): Promise<MixAnswer> {
  const [feeds, ours, peer] = await Promise.all([
    feedsOf(asked),
    openPlan(asked.network),
    openOnnxRuntimeOfAnyExtent(asked.network),
  ]);
  const engines = [ours, peer];
  const { extents } = asked;
  const totals = [0, 0];
  for (let i = 0; i < WARM_RUNS * 4; i++) {
    const fed = feeds(extents[i % extents.length] as number);
    for (const engine of engines) await engine.run(fed);
  }
  for (const [i, extent] of extents.entries()) {
    for (const at of i % 2 ? [1, 0] : [0, 1]) {
      const fed = feeds(extent);
      totals[at] =
        (totals[at] as number) + (await timedMs(() => (engines[at] as typeof ours).run(fed)));
    }
  }
  await ours.dispose();
  peer.dispose();
  return { oursMs: totals[0] as number, peerMs: totals[1] as number };
}

/** Runs each extent twice: the first run comes behind one of the extent before. */
export async function switches(asked: ShapesAsked): Promise<SwitchAnswer> {
  const [feeds, ours] = await Promise.all([feedsOf(asked), openPlan(asked.network)]);
  const switchedMs: number[] = [];
  const stayedMs: number[] = [];
  for (const [i, extent] of [...asked.extents.slice(-WARM_RUNS), ...asked.extents].entries()) {
    const fed = feeds(extent);
    const [first, second] = [
      await timedMs(() => ours.run(fed)),
      await timedMs(() => ours.run(fed)),
    ];
    if (i < WARM_RUNS) continue;
    switchedMs.push(first);
    stayedMs.push(second);
  }
  await ours.dispose();
  return { switchedMs, stayedMs };
}

let opened: ReturnType<typeof openPlan> | null = null;

/** Runs extents on a plan that stays open from call to call, so that somebody may look meanwhile. */
export async function random(asked: ShapesAsked): Promise<number> {
  opened ??= openPlan(asked.network);
  const [feeds, ours] = await Promise.all([feedsOf(asked), opened]);
  for (const extent of asked.extents) await ours.run(feeds(extent));
  return asked.extents.length;
}
