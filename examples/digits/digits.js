/**
 * Reads a digit while it is drawn. `?zoo=` names a zoo that has the model `digits`; without it the
 * page reads the bundle beside it, from any static host. After the first visit it needs no network: a
 * service worker has the page and the SDK, and the device keeps the graph of the network.
 *
 * What was read last is at `globalThis.kernelzooDigit`, null for empty paper.
 */
import { compiled, openZoo } from "../zoo.js";
import { paperIn } from "./paper.js";

const DIGITS = 10;
const isBundled = !new URLSearchParams(location.search).has("zoo");
const beside = (file) => new URL(file, location.href).href;
const BUNDLE = {
  sdk: beside("sdk/sdk.js"),
  zoo: beside("zoo/bundle.json"),
  remedy:
    "`kernelzoo zoo sdk` and `kernelzoo zoo bundle` write what lies beside this page, as docs/bundles.md " +
    "shows; or name a zoo that has the model `digits`: ?zoo=http://127.0.0.1:8787",
};

const byId = (id) => document.getElementById(id);

const bars = Array.from({ length: DIGITS }, (_, digit) => {
  const meter = document.createElement("meter");
  meter.setAttribute("aria-label", `${digit}`);
  const row = document.createElement("li");
  row.append(`${digit}`, meter);
  byId("bars").append(row);
  return meter;
});

/** Null for empty paper. */
function show(probabilities) {
  const digit = probabilities === null ? null : probabilities.indexOf(Math.max(...probabilities));
  for (const [i, bar] of bars.entries()) bar.value = probabilities?.[i] ?? 0;
  // A screen reader says it when it changes.
  const text = digit === null ? "?" : `${digit}`;
  if (byId("digit").textContent !== text) byId("digit").textContent = text;
  globalThis.kernelzooDigit = digit;
}

const showStatus = (text) => {
  byId("status").textContent = text;
};

function showError(thrown) {
  showStatus("");
  const error = byId("error");
  error.textContent = thrown instanceof Error ? thrown.message : `${thrown}`;
  error.hidden = false;
}

/** Runs for the newest drawing alone: strokes that come meanwhile wait for one run together. */
function reader(model, paper) {
  let running = false;
  let waiting = false;
  const read = async () => {
    const image = paper.image();
    if (image === null) return show(null);
    const start = performance.now();
    const { probabilities } = await model.run({ image });
    const elapsedMs = performance.now() - start;
    show(probabilities);
    showStatus(`Read in ${elapsedMs.toFixed(1)} ms.`);
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

/** The worker that keeps what this page fetches; none on plain http. */
async function keepForOffline() {
  const { serviceWorker } = navigator;
  if (!isBundled || serviceWorker === undefined) return;
  await serviceWorker.register("offline.js");
  if (serviceWorker.controller !== null) return;
  await new Promise((resolve) => {
    serviceWorker.addEventListener("controllerchange", resolve, { once: true });
  });
}

/** The network as the zoo has it now; as this device keeps it where the zoo does not answer. */
async function networkOf(zoo) {
  const fromZoo = () => zoo.model("digits", { save: "digits" });
  try {
    return await compiled(fromZoo, showStatus);
  } catch (failure) {
    return zoo.loadGraph("digits").catch(() => {
      throw failure;
    });
  }
}

async function main() {
  let changed = () => undefined;
  const paper = paperIn(byId("paper"), () => changed());
  byId("clear").addEventListener("click", paper.clear);
  await keepForOffline();
  const { zoo } = await openZoo({}, isBundled ? BUNDLE : undefined);
  const model = await networkOf(zoo);
  const read = reader(model, paper);
  changed = () => void read();
  showStatus("Ready: draw with a finger, a mouse or the keys.");
  globalThis.kernelzooReady = true;
  // What was drawn meanwhile.
  changed();
  // Weights and golden outputs may come after the first digits: now nothing more is fetched.
  await model.complete();
  // A browser that keeps nothing runs it all the same.
  await model.saved?.catch(() => undefined);
  globalThis.kernelzooComplete = true;
}

main().catch(showError);
