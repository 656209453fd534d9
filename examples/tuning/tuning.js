/**
 * A network that tunes itself: inference after inference with a rest between, drawn as it gets faster.
 *
 * `?zoo=` names the zoo, `?model=` the network and `?app=` the application in whose name a page of
 * another origin than the zoo's shares what it measures, once its visitor has agreed. What is drawn is at
 * `globalThis.kernelzooTuning`, or `globalThis.kernelzooError` says why there is nothing.
 */
import { showError, showStatus } from "../kernels/show.js";
import { compiled, openZoo } from "../zoo.js";

const parameters = new URLSearchParams(location.search);
const name = parameters.get("model") ?? "encoder";
const application = parameters.get("app");
const WORDS = 2000;

const canvas = document.querySelector("#curve");
const agreed = document.querySelector("#contribute");
const runs = [];
const swaps = [];
globalThis.kernelzooTuning = { runs, swaps };

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Numbers that fit an input: words, a mask, or noise. */
function feedOf({ name: input, dtype, shape }) {
  const entries = shape.reduce((product, extent) => product * extent, 1);
  const numbers = Array.from({ length: entries }, (_, i) => {
    if (dtype === "float32") return Math.sin(i);
    return input.includes("mask") ? 1 : input.includes("type") ? 0 : (i * 7919) % WORDS;
  });
  return [input, numbers];
}

/** Room for the numbers beside the chart. */
const LEFT = 72;

function draw() {
  const { width, height } = canvas.getBoundingClientRect();
  const scale = devicePixelRatio;
  [canvas.width, canvas.height] = [width * scale, height * scale];
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const lastS = Math.max(10, runs.at(-1)?.atS ?? 0);
  const sorted = runs.map(({ elapsedMs }) => elapsedMs).sort((a, b) => a - b);
  // A run that something else has held up is drawn at the edge.
  const mostMs = sorted[Math.floor(0.97 * (sorted.length - 1))];
  const x = (atS) => (atS / lastS) * (width - LEFT - 5) + LEFT;
  const y = (ms) => height - 20 - (Math.min(ms, 1.1 * mostMs) / (1.1 * mostMs)) * (height - 30);
  pen.fillStyle = pen.strokeStyle = getComputedStyle(canvas).color;
  pen.globalAlpha = 0.3;
  for (const { atS } of swaps) pen.fillRect(x(atS), 5, 1, height - 25);
  pen.globalAlpha = 1;
  for (const { atS, elapsedMs } of runs) pen.fillRect(x(atS) - 1, y(elapsedMs) - 1, 3, 3);
  // A canvas writes in 10 px unless told.
  pen.font = getComputedStyle(canvas).font;
  pen.textAlign = "right";
  pen.fillText("0", LEFT - 8, height - 20);
  pen.fillText(`${mostMs.toFixed(mostMs < 10 ? 1 : 0)} ms`, LEFT - 8, y(mostMs) + 5);
  pen.fillText(`${lastS.toFixed(0)} s`, width, height - 4);
}

const contribution = () => (application === null ? true : { application });

/** Every request of tuning as it went out, the latest first. */
function showSent(sent) {
  const list = document.querySelector("#sent");
  if (list.shown === sent.at(-1)) return;
  list.shown = sent.at(-1);
  const lines = sent.map(({ method, path, body }) => {
    const line = document.createElement("li");
    const text = document.createElement("pre");
    text.textContent = [`${method} ${path}`, body].filter((each) => each !== "").join("\n");
    line.append(text);
    return line;
  });
  list.replaceChildren(...lines.reverse());
  document.querySelector("#requests").textContent = `The last requests (${sent.length})`;
}

async function main() {
  const { zoo } = await openZoo();
  const start = performance.now();
  const atS = () => (performance.now() - start) / 1000;
  /** What was agreed to holds for as long as the network is open. */
  const opened = async () => {
    const contribute = agreed.checked && contribution();
    const tuned = await compiled(() => zoo.model(name, { tune: "idle", contribute }), showStatus);
    tuned.on("swap", (swap) => {
      swaps.push({ ...swap, atS: atS() });
      const gain = (100 * (1 - swap.relativeTime)).toFixed(0);
      document.querySelector("#swaps").textContent = `Last: ${swap.workload}, ${gain} % faster`;
    });
    // Weights are on their way until the first run is over.
    await tuned.run(Object.fromEntries(tuned.inputs.map(feedOf)));
    return tuned;
  };
  let changed = false;
  agreed.addEventListener("change", () => {
    changed = true;
  });
  let model = await opened();
  const feeds = Object.fromEntries(model.inputs.map(feedOf));
  for (;;) {
    if (changed) {
      changed = false;
      await model.dispose();
      model = await opened();
    }
    const before = performance.now();
    await model.run(feeds);
    const elapsedMs = performance.now() - before;
    runs.push({ atS: atS(), elapsedMs });
    const { state, reason, measured, contributed, sent } = model.tuning;
    const last = `${elapsedMs.toFixed(1)} ms, at first ${runs[0].elapsedMs.toFixed(1)} ms`;
    const why = reason === "" ? "." : `: ${reason}`;
    const shared = contributed === 0 ? "" : `, ${contributed} for others`;
    showStatus(`${last}; ${measured} kernels measured${shared}; ${state}${why}`);
    showSent(sent);
    draw();
    await sleep(Math.max(elapsedMs, 16));
  }
}

main().catch((thrown) => {
  globalThis.kernelzooError = thrown.message;
  showError(thrown.message);
});
