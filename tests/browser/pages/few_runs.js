/** Visits of a page that says how often its model runs, as tests/browser/test_few_runs.py asks for them. */
import { host, open } from "./zoo.js";

/** Has the model's worker say how often it let messages in before each call of a kernel. */
function countCalls() {
  const counting = `{
    let breaths = 0;
    const calls = [];
    const post = MessagePort.prototype.postMessage;
    MessagePort.prototype.postMessage = function (...sent) {
      breaths += 1;
      return post.apply(this, sent);
    };
    const Instance = WebAssembly.Instance;
    WebAssembly.Instance = function (module, imports) {
      const { exports } = new Instance(module, imports);
      const counted = Object.entries(exports).map(([name, run]) => [name, (...words) => {
        calls.push([words.length, breaths, words.at(-2), words.at(-1)]);
        return run(...words);
      }]);
      return { exports: Object.fromEntries(counted) };
    };
    const told = new BroadcastChannel("counted");
    told.onmessage = () => told.postMessage({ calls });
  }`;
  globalThis.Blob = class extends Blob {
    constructor(parts, options) {
      super([counting, ...parts], options);
    }
  };
}

const counted = () =>
  new Promise((resolve) => {
    const asked = new BroadcastChannel("counted");
    asked.onmessage = ({ data }) => {
      if (data.calls.length > 0) resolve(data.calls);
    };
    asked.postMessage("");
  });

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function visits(feeds) {
  countCalls();
  const right = feeds.y;
  const largest = right.reduce((most, entry) => Math.max(most, Math.abs(entry)), 0);
  let worst = 0;
  const visit = async (options) => {
    const zoo = await open();
    const model = await zoo.model(`${host}/deep.json`, options);
    const swaps = [];
    const swapped = new Promise((resolve) => {
      model.on("swap", (swap) => {
        swaps.push(swap);
        resolve();
      });
    });
    const run = async () => {
      const { y } = await model.run({ x: Float32Array.from(feeds.x) });
      worst = y.reduce(
        (most, entry, i) => Math.max(most, Math.abs(entry - right[i]) / largest),
        worst,
      );
    };
    await run();
    const candidates = () => [...new Set(model.plan.calls.map(({ candidate }) => candidate))];
    return { model, swaps, swapped, run, candidates };
  };

  const usual = await visit({ check: false });
  const many = await visit({ check: false, runs: 1000 });
  const [byDefault, forMany] = [usual.candidates(), many.candidates()];
  await usual.model.dispose();
  await many.model.dispose();

  const one = await visit({ check: false, runs: 1 });
  const predictedMs = one.model.plan.calls[0].predictedMs;
  await sleep(300);
  const once = { candidates: one.candidates(), swaps: one.swaps.length };
  await one.run(); // More than the page told.
  await one.swapped;
  const twice = { candidates: one.candidates(), swaps: one.swaps };
  await one.run();
  const calls = await counted();
  await one.model.dispose();

  const few = await visit({ check: false, runs: 3 });
  const atFirst = few.candidates();
  await few.swapped;
  const soon = few.candidates();
  await few.run();
  await few.model.dispose();
  return { byDefault, forMany, predictedMs, once, twice, atFirst, soon, calls, worst };
}
