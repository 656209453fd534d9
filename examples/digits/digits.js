/**
 * Reads a digit while it is drawn. `?zoo=` names a zoo that has the model `digits`; without it the
 * page reads the bundle beside it, from any static host and without a network.
 *
 * The answer to the last stroke is at `globalThis.kernelzooDigit`.
 */
import { clear, drawOn, imageOf } from "./paper.js";

const DIGITS = 10;
const zooUrl = new URLSearchParams(location.search).get("zoo");
const sdkUrl = zooUrl === null ? "./sdk.js" : new URL("/client/sdk.js", zooUrl).href;

const paper = document.querySelector("#paper");
const shown = document.querySelector("#digit");
const status = document.querySelector("#status");

const meters = Array.from({ length: DIGITS }, (_, digit) => {
  const meter = document.createElement("meter");
  meter.setAttribute("aria-label", `${digit}`);
  const row = document.createElement("li");
  row.append(`${digit}`, meter);
  document.querySelector("#bars").append(row);
  return meter;
});

function show(probabilities) {
  const digit = probabilities.indexOf(Math.max(...probabilities));
  for (const [i, meter] of meters.entries()) meter.value = probabilities[i];
  shown.textContent = digit;
  return digit;
}

/** Runs for the newest drawing alone: strokes that come meanwhile wait for one run together. */
function reader(model) {
  let running = false;
  let waiting = false;
  const read = async () => {
    const image = imageOf(paper);
    if (image === null) return;
    const start = performance.now();
    const { probabilities } = await model.run({ image });
    const elapsedMs = performance.now() - start;
    status.textContent = `Read in ${elapsedMs.toFixed(1)} ms.`;
    globalThis.kernelzooDigit = show(probabilities);
  };
  return async () => {
    waiting = true;
    if (running) return;
    running = true;
    try {
      while (waiting) {
        waiting = false;
        await read();
      }
    } catch (thrown) {
      showError(thrown);
    } finally {
      running = false;
    }
  };
}

function showError(thrown) {
  const error = document.querySelector("#error");
  error.textContent = thrown instanceof Error ? thrown.message : `${thrown}`;
  error.hidden = false;
}

try {
  const { KernelZoo } = await import(sdkUrl);
  const zoo = await KernelZoo.open(zooUrl ?? new URL("zoo/bundle.json", location.href));
  const model = await zoo.model("digits");
  const read = reader(model);
  drawOn(paper, () => void read());
  document.querySelector("#clear").addEventListener("click", () => {
    clear(paper);
    shown.textContent = "?";
  });
  status.textContent = "Ready: draw with a finger or a mouse.";
  globalThis.kernelzooReady = true;
} catch (thrown) {
  showError(thrown);
}
