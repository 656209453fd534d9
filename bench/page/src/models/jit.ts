/** A network that is tuned in its page, inference after inference, with onnxruntime-web in turns. */
import type { Model } from "../../../../client/src/runtime/model.js";
import type { KernelZoo } from "../../../../client/src/sdk/zoo.js";
import { now } from "../../../../client/src/timing/clock.js";
import { type Network, relativeDifference, type Values, valuesOf } from "./network.js";
import { openOnnxRuntime } from "./onnxruntime.js";

export interface JitRequest {
  readonly network: Network;
  /** Of rest for each millisecond of inference. */
  readonly rest: number;
  readonly seconds: number;
  /** Inferences of ours for each of the peer; 0 leaves the peer out. */
  readonly peerEvery: number;
}

/** Seconds since the network was opened for tuning, and milliseconds of an inference. */
type Curve = readonly (readonly [atS: number, elapsedMs: number])[];

export interface JitAnswer {
  /** Before anything is measured, by a copy that is not tuned. */
  readonly initialMs: readonly number[];
  readonly ours: Curve;
  readonly peer: Curve;
  readonly swaps: readonly { readonly atS: number; readonly workload: string }[];
  readonly regressions: readonly string[];
  readonly measured: number;
  readonly spentMs: number;
  /** When tuning ended; null where it was still at work. */
  readonly endedS: number | null;
  readonly reason: string;
  /** Milliseconds of each task of the page's own thread that took more than 50 ms. */
  readonly longTasksMs: readonly number[];
  readonly difference: number;
}

const SDK = "/client/sdk.js";
const INITIAL = 9;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function initial(zoo: KernelZoo, file: string, feeds: Values): Promise<readonly number[]> {
  const model = await zoo.model(file, { check: false });
  const times: number[] = [];
  for (let i = 0; i <= INITIAL; i++) {
    const elapsedMs = await runMs(model, feeds);
    if (i > 0) times.push(elapsedMs);
    await sleep(elapsedMs);
  }
  await model.dispose();
  return times;
}

async function runMs(model: Model, feeds: Values): Promise<number> {
  const start = now();
  await model.run(feeds);
  return now() - start;
}

export async function jit(request: JitRequest): Promise<JitAnswer> {
  const { network, rest, seconds, peerEvery } = request;
  const file = network.zoo ?? "";
  const { KernelZoo: Zoo }: { readonly KernelZoo: typeof KernelZoo } = await import(SDK);
  const zoo = await Zoo.open(new URL("/zoo/bundle.json", location.origin));
  const [feeds, right] = await Promise.all([valuesOf(network.inputs), valuesOf(network.outputs)]);
  const initialMs = await initial(zoo, file, feeds);
  const peer = peerEvery > 0 ? await openOnnxRuntime(network, 1) : null;
  await peer?.run();

  const longTasksMs: number[] = [];
  const observer = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) longTasksMs.push(duration);
  });
  const model = await zoo.model(file, { check: false, tune: "idle" });
  observer.observe({ type: "longtask" });
  const start = now();
  const atS = (): number => (now() - start) / 1000;
  const swaps: { readonly atS: number; readonly workload: string }[] = [];
  const regressions: string[] = [];
  model.on("swap", ({ workload }) => swaps.push({ atS: atS(), workload }));
  model.on("regression", ({ reason }) => regressions.push(reason));
  const ours: [number, number][] = [];
  const peers: [number, number][] = [];
  let endedS: number | null = null;
  while (atS() < seconds) {
    const elapsedMs = await runMs(model, feeds);
    ours.push([atS(), elapsedMs]);
    if (model.tuning?.state === "done") endedS ??= atS();
    await sleep(rest * elapsedMs);
    if (peer === null || ours.length % peerEvery !== 0) continue;
    const before = now();
    await peer.run();
    peers.push([atS(), now() - before]);
    // Long tasks of the peer's are its own.
  }
  observer.disconnect();
  const difference = relativeDifference((await model.run(feeds)) as Values, right);
  const { measured = 0, spentMs = 0, reason = "" } = model.tuning ?? {};
  await model.dispose();
  await peer?.dispose();
  return {
    ...{ initialMs, ours, peer: peers, swaps, regressions, measured, spentMs, endedS, reason },
    ...{ longTasksMs, difference },
  };
}
