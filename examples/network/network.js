/**
 * A network of a zoo, run on its kernels and in onnxruntime-web, in turns and on the same words.
 *
 * `?zoo=` names the zoo, `?model=` the network, `?onnx=` its file and `?peer=` a worker that runs
 * it in onnxruntime-web; without those two the zoo's kernels run alone. The outcome is at
 * `globalThis.kernelzooNetwork`, or `globalThis.kernelzooError` says why there is none.
 */
import { showError, showNetwork, showStatus } from "../kernels/show.js";
import { compiled, openZoo } from "../zoo.js";

const ROUNDS = 9;
const WORDS = 2000;

const parameters = new URLSearchParams(location.search);
const name = parameters.get("model") ?? "encoder";
const onnxUrl = parameters.get("onnx");
const peerUrl = parameters.get("peer");

/** The network on the zoo's kernels. */
async function openNetwork() {
  const { zoo } = await openZoo();
  const onProgress = (progress) => showStatus(sentence(progress));
  return compiled(() => zoo.model(name, { onProgress }), showStatus);
}

const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

/** How far a load has come. */
function sentence({ phase, loaded, total }) {
  if (phase === "plan") return "The plan is there…";
  if (phase === "check") return "Comparing an output that is known…";
  return `Loading ${phase}: ${megabytes(loaded)} of ${megabytes(total)} MB…`;
}

/** What the worker of onnxruntime-web answers to a question. */
function ask(worker, question) {
  return new Promise((resolve, reject) => {
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.onmessage = ({ data }) =>
      data.type === "ran" ? resolve(data) : reject(new Error(data.message));
    worker.postMessage(question);
  });
}

/** The same network in onnxruntime-web, on one thread as well; null where there is none. */
async function openPeer(feeds) {
  if (onnxUrl === null || peerUrl === null) return null;
  const worker = new Worker(new URL(peerUrl, location.href), { type: "module" });
  const inputs = feeds.map(({ name: input, dtype, shape, data }) => {
    return { name: input, dtype, shape, url: URL.createObjectURL(new Blob([data])) };
  });
  const onnx = new URL(onnxUrl, location.href).href;
  const network = { onnx, zoo: null, tflite: null, dimensions: {}, inputs, outputs: [] };
  const { name: peer } = await ask(worker, { type: "open", network, threads: 1 });
  return {
    name: peer,
    run: async () => (await ask(worker, { type: "run" })).outputs,
  };
}

/** Random words for each input, or ones where it takes no words, as masks do. */
function feedsOf({ inputs }) {
  return inputs.map(({ name: input, dtype, shape }) => {
    const entries = shape.reduce((product, extent) => product * extent, 1);
    const word = () => BigInt(Math.floor(Math.random() * WORDS));
    const data = BigInt64Array.from({ length: entries }, input.endsWith("ids") ? word : () => 1n);
    return { name: input, dtype, shape, data };
  });
}

async function elapsedMs(run) {
  const start = performance.now();
  await run();
  return performance.now() - start;
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** In turns, so that a disturbance hits both. The first round warms up. */
async function timed(runs) {
  const samples = runs.map(() => []);
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [i, run] of runs.entries()) {
      const sample = await elapsedMs(run);
      if (round > 0) samples[i].push(sample);
    }
  }
  return samples.map(median);
}

/** The largest difference of an entry, as a share of the largest magnitude. */
function difference(ours, theirs) {
  const apart = Object.entries(theirs).map(([output, wanted]) => {
    let [largest, worst] = [0, 0];
    for (const [i, value] of wanted.entries()) {
      largest = Math.max(largest, Math.abs(value));
      worst = Math.max(worst, Math.abs(ours[output][i] - value));
    }
    return worst / largest;
  });
  return Math.max(...apart);
}

async function main() {
  const model = await openNetwork();
  const inputs = feedsOf(model);
  const feeds = Object.fromEntries(inputs.map((each) => [each.name, each.data]));
  const run = () => model.run(feeds);
  if (peerUrl !== null) showStatus("onnxruntime-web loads the same network…");
  const peer = await openPeer(inputs);
  const apart = peer === null ? null : difference(await run(), await peer.run());
  showStatus(`Timing ${ROUNDS} runs${peer === null ? "" : " of both, in turns"}…`);
  const [zooMs, peerMs = null] = await timed(peer === null ? [run] : [run, peer.run]);
  const { calls } = model.plan;
  const result = {
    network: name,
    zoo_ms: zooMs,
    peer: peer?.name ?? null,
    peer_ms: peerMs,
    difference: apart,
    calls: calls.length,
    levels: calls.map(({ level }) => level),
  };
  showStatus("");
  showNetwork(result);
  globalThis.kernelzooNetwork = result;
}

main().catch((error) => {
  showError(error.message);
  globalThis.kernelzooError = error.message;
});
