/** A network that is tuned in its page, inference after inference, with onnxruntime-web in turns. */
import type { Model } from "../../../../client/src/model/model.js";
import type { KernelZoo } from "../../../../client/src/sdk/zoo.js";
import { now } from "../../../../client/src/timing/clock.js";
import { lastBegan, measuredUntilMs } from "./began.js";
import { type Engine, type Network, relativeDifference, type Values, valuesOf } from "./network.js";
import { openOnnxRuntime, openOnnxRuntimeOnGpu } from "./peers.js";

export interface JitRequest {
  readonly network: Network;
  /** The address of a gateway, and what it knows the network as. */
  readonly gateway: string;
  readonly name: string;
  /** Milliseconds of rest for each one of inference. */
  readonly rest: number;
  readonly seconds: number;
  /** The application in whose name the page measures for others; null where it does not. */
  readonly application: string | null;
  /** Inferences of ours for each of the peer; 0 leaves the peer out. */
  readonly peerEvery: number;
  /** True where a copy that is not tuned takes turns with it. */
  readonly beside: boolean;
  /** The backend on which both engines run it. */
  readonly backend: "wasm" | "webgpu";
}

/** Seconds since the network was opened for tuning, and milliseconds of an inference. */
type Curve = readonly (readonly [atS: number, elapsedMs: number])[];

export interface JitAnswer {
  readonly browser: string;
  /** Times of a copy that is not tuned, where one runs. */
  readonly initialMs: readonly number[];
  readonly ours: Curve;
  /**
   * Milliseconds from when each was asked for until it began; none on a GPU, whose worker does not
   * tell it.
   */
  readonly waitsMs: readonly number[];
  /**
   * These waits, but from the end of the slice where one was under way, of a swap or of measuring.
   */
  readonly afterSliceMs: readonly number[];
  readonly peer: Curve;
  readonly swaps: readonly {
    readonly atS: number;
    readonly workload: string;
    readonly relativeTime: number;
  }[];
  readonly regressions: readonly string[];
  readonly measured: number;
  readonly contributed: number;
  readonly spentMs: number;
  /** Seconds until tuning ended; null where it was still at work. */
  readonly endedS: number | null;
  readonly reason: string;
  /** Milliseconds of each task of the page's own thread that took more than 50 ms. */
  readonly longTasksMs: readonly number[];
  readonly difference: number;
}

const SDK = "/client/sdk.js";
const COMPILED_WITHIN_MS = 120_000;

const openPeer = (network: Network, backend: JitRequest["backend"]): Promise<Engine> =>
  backend === "wasm" ? openOnnxRuntime(network, 1) : openOnnxRuntimeOnGpu(network);

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

type Open = (tune: "idle" | "off") => Promise<Model>;

/** Opens the network once the zoo has compiled the default kernels, and has time to answer. */
const opener =
  (zoo: KernelZoo, { name, network, application, backend }: JitRequest): Open =>
  async (tune) => {
    const contribute = application === null ? false : { application };
    const options = { dimensions: network.dimensions, check: false, tune, contribute };
    for (const until = now() + COMPILED_WITHIN_MS; ; await sleep(500)) {
      try {
        const model = await zoo.model(name, options);
        const { target, targetReason } = model.plan;
        if (target === backend) return model;
        await model.dispose();
        throw new Error(targetReason ?? target);
      } catch (thrown) {
        if (now() > until) throw thrown;
      }
    }
  };

/** Does `work` while the page tells that it is hidden, which is when nothing is measured. */
async function unmeasured<T>(work: () => Promise<T>): Promise<T> {
  const tell = (hidden: boolean): void => {
    Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  };
  tell(true);
  try {
    return await work();
  } finally {
    tell(false);
  }
}

async function timedRun(model: Model, feeds: Values): Promise<number> {
  const start = now();
  await model.run(feeds);
  return now() - start;
}

export async function jit(request: JitRequest): Promise<JitAnswer> {
  const { network, gateway, rest, seconds, peerEvery, backend } = request;
  const { KernelZoo: Zoo }: { readonly KernelZoo: typeof KernelZoo } = await import(SDK);
  const zoo = await Zoo.open(gateway, { backend });
  const [feeds, right] = await Promise.all([valuesOf(network.inputs), valuesOf(network.outputs)]);
  const peer = peerEvery > 0 ? await openPeer(network, backend) : null;
  await peer?.run();
  const open = opener(zoo, request);
  const longTasksMs: number[] = [];
  const observer = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) longTasksMs.push(duration);
  });
  const model = await open("idle");
  const beside = request.beside ? await open("off") : null;
  await beside?.run(feeds);
  // Weights are on their way until its first inference is over.
  await model.run(feeds);
  observer.observe({ type: "longtask" });
  const start = now();
  const atS = (): number => (now() - start) / 1000;
  const swaps: {
    readonly atS: number;
    readonly workload: string;
    readonly relativeTime: number;
  }[] = [];
  const regressions: string[] = [];
  model.on("swap", ({ workload, relativeTime }) =>
    swaps.push({ atS: atS(), workload, relativeTime }),
  );
  model.on("regression", ({ reason }) => regressions.push(reason));
  const ours: [number, number][] = [];
  const [waitsMs, afterSliceMs]: [number[], number[]] = [[], []];
  const peers: [number, number][] = [];
  const initialMs: number[] = [];
  let endedS: number | null = null;
  while (atS() < seconds) {
    const askedMs = performance.timeOrigin + now();
    const elapsedMs = await timedRun(model, feeds);
    ours.push([atS(), elapsedMs]);
    const began = lastBegan();
    if (began !== null) {
      waitsMs.push(began.startMs - askedMs);
      const sliceEndMs = Math.max(began.sliceEndMs, measuredUntilMs());
      afterSliceMs.push(began.startMs - Math.max(askedMs, sliceEndMs));
    }
    if (model.tuning?.state === "done") endedS ??= atS();
    await sleep(rest * elapsedMs);
    if (beside !== null) {
      const besideMs = await unmeasured(() => timedRun(beside, feeds));
      initialMs.push(besideMs);
      await sleep(rest * besideMs);
    }
    if (peer === null || ours.length % peerEvery !== 0) continue;
    const before = now();
    await peer.run();
    peers.push([atS(), now() - before]);
    // The peer has left the caches cold.
    await sleep(rest * (await timedRun(model, feeds)));
  }
  observer.disconnect();
  const difference = relativeDifference((await model.run(feeds)) as Values, right);
  const { measured = 0, contributed = 0, spentMs = 0, reason = "" } = model.tuning ?? {};
  await model.dispose();
  await beside?.dispose();
  await peer?.dispose();
  return {
    browser: /Chrom\w*\/[\d.]+/.exec(navigator.userAgent)?.[0]?.replace("/", " ") ?? "",
    initialMs,
    ...{ ours, waitsMs, afterSliceMs, peer: peers, swaps, regressions, longTasksMs, difference },
    ...{ measured, contributed, spentMs, endedS, reason },
  };
}
