/** Pages that run models on the GPU, as tests/browser/test_models_gpu.py asks for them. */
import { KernelZoo } from "../client/sdk.js";
import { host, open, refusal } from "./zoo.js";

/** A model that is tuned in its page, and what the page hears of it. */
async function tuned(feeds) {
  const zoo = await open({ backend: "webgpu" });
  const model = await zoo.model("tuned", { tune: "idle" });
  const heard = [];
  model.on("swap", ({ candidate }) => heard.push(["swap", candidate]));
  model.on("regression", ({ candidate, reason }) => heard.push(["regression", candidate, reason]));
  model.on("devicelost", ({ reason }) => heard.push(["devicelost", reason]));
  const x = Float32Array.from(feeds.x);
  const run = async () => [...(await model.run({ x })).y];
  const until = async (holds) => {
    for (const start = performance.now(); performance.now() < start + 30_000 && !holds(); ) {
      await run();
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
  };
  const swapped = () => model.tuning.swaps.length > 0;
  return { zoo, model, heard, x, run, until, swapped };
}

export async function wrong(feeds, rare) {
  const { zoo, model, heard, x, run, until, swapped } = await tuned(feeds);
  await until(swapped);
  const [{ level, since }] = model.plan.calls;
  const right = await run();
  const { measured, reason, sent } = model.tuning;
  const normal = x[0];
  x[0] = rare;
  let last;
  for (let i = 0; i < 400 && heard.length < 2; i++) last = await run();
  const later = await run();
  x[0] = normal;
  const after = await run();
  await model.dispose();
  zoo.dispose();
  const shown = { level, since: since instanceof Date, measured, reason, sent };
  return { heard, right, after, last, later, ...shown };
}

export async function later(feeds, rare) {
  const { zoo, model, heard, x, until, swapped } = await tuned(feeds);
  await until(swapped);
  await model.dispose();
  const later = await zoo.model("tuned", { tune: "idle" });
  later.on("regression", ({ candidate, reason }) => heard.push(["regression", candidate, reason]));
  const [{ level, candidate }] = later.plan.calls;
  const again = async () => [...(await later.run({ x })).y];
  const right = await again();
  const normal = x[0];
  x[0] = rare;
  let last;
  for (let i = 0; i < 2_000 && heard.length < 2; i++) last = await again();
  const same = await again();
  x[0] = normal;
  const after = await again();
  const [{ level: left }] = later.plan.calls;
  const calls = later.plan.calls.length;
  const { uniforms } = await counted();
  await later.dispose();
  zoo.dispose();
  return { heard, level, candidate, right, last, same, after, left, calls, uniforms };
}

export async function lost(feeds) {
  const { zoo, model, heard, run, until, swapped } = await tuned(feeds);
  const before = model.plan;
  const first = await run();
  await until(swapped);
  const second = await run();
  const kept = () => Object.entries(localStorage).filter(([key]) => key.includes("won:"));
  const winners = kept().map(([, note]) => Object.keys(JSON.parse(note).wins).length);
  new BroadcastChannel("lose").postMessage(null);
  const third = await run();
  const after = model.plan;
  const { state } = model.tuning;
  const fourth = await run();
  await model.dispose();
  const later = await zoo.model("tuned", { tune: "idle" });
  const { target, targetReason } = later.plan;
  await later.dispose();
  zoo.dispose();
  const left = kept().map(([, note]) => Object.keys(JSON.parse(note).wins).length);
  const ys = [first, second, third, fourth];
  return { heard, before, after, target, targetReason, ys, state, winners, left };
}

export async function hanging(feeds) {
  const { zoo, model, heard, run, swapped } = await tuned(feeds);
  const right = await run();
  let worst = 0;
  const largest = right.reduce((most, entry) => Math.max(most, Math.abs(entry)), 0);
  for (const start = performance.now(); performance.now() < start + 60_000 && !swapped(); ) {
    const y = await run();
    worst = y.reduce((most, entry, i) => Math.max(most, Math.abs(entry - right[i])), worst);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
  const { measured, reason } = model.tuning;
  const { target } = model.plan;
  await model.dispose();
  zoo.dispose();
  return { heard, measured, reason, target, worst: worst / largest };
}

/** A model that the device keeps. */
async function kept(feeds) {
  const zoo = await open();
  const visit = async () => {
    const model = await zoo.model(`${host}/webgpu/small.json`, { save: "mine", check: false });
    const outputs = await model.run(feeds);
    await model.saved;
    await model.dispose();
    return [...outputs.y];
  };
  const loaded = async () => {
    const model = await zoo.loadGraph("mine");
    const { target } = model.plan;
    const outputs = await model.run(feeds);
    await model.dispose();
    return [[...outputs.y], target, model.inputs.map(({ name }) => name)];
  };
  return { zoo, visit, loaded };
}

export async function visitKept(feeds) {
  return (await kept(feeds)).visit();
}

export async function loadKept(feeds) {
  return (await kept(feeds)).loaded();
}

export async function damaged(feeds) {
  const { zoo, visit, loaded } = await kept(feeds);
  const root = await navigator.storage.getDirectory();
  const folder = await root.getDirectoryHandle("kernelzoo-graphs");
  for await (const [name, handle] of folder.entries()) {
    if (!name.endsWith(".weights")) continue;
    const body = new Uint8Array(await (await handle.getFile()).arrayBuffer());
    const writing = await handle.createWritable();
    await writing.write(body.fill(body[2000] ^ 1, 2000, 2001));
    await writing.close();
  }
  return [await refusal(loaded), await zoo.listGraphs(), await visit()];
}

export async function deleteKept() {
  await (await open()).deleteGraph("mine");
}

export async function run(feeds) {
  const zoo = await open();
  const model = await zoo.model(`${host}/webgpu/small.json`);
  const zero = { ids: feeds.ids.map(() => 0), x: feeds.x };
  const runs = await Promise.all([feeds, zero, feeds, zero, feeds].map((each) => model.run(each)));
  const bindGroups = 3 * model.plan.calls.length;
  let loaded = await counted();
  for (let i = 0; i < 300 && loaded.bindGroups < bindGroups; i++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    loaded = await counted();
  }
  await model.run(feeds);
  const after = await counted();
  const more = ([name, count]) => [name, count - loaded[name]];
  const ofRun = Object.fromEntries(Object.entries(after).map(more));
  const spare = await model.run(zero);
  const memory = Object.entries(spare).map(([name, { buffer }]) => [name, buffer]);
  runs.push(await model.run(feeds, { into: spare }));
  const taken = memory.map(([name, { detached }]) => detached && name);
  const { calls, totalMs } = await model.profile({ runs: 1 });
  const { plan } = model;
  const stop = new AbortController();
  const stopped = refusal(() => model.run(feeds, { signal: stop.signal }));
  stop.abort(new Error("enough"));
  const reason = await stopped;
  const plain = ([name, data]) => [name, [...data].map(Number)];
  const listed = runs.map((outputs) => Object.fromEntries(Object.entries(outputs).map(plain)));
  await model.dispose();
  return {
    listed,
    plan,
    reason,
    totalMs,
    loaded,
    ofRun,
    taken,
    took: calls.map((call) => call.elapsedMs),
  };
}

export async function visit(feeds) {
  const zoo = await KernelZoo.open(host);
  const model = await zoo.model("small");
  const { y } = await model.run(feeds);
  await model.complete();
  order.push("complete");
  const { target } = model.plan;
  for (let i = 0; i < 300 && !order.includes("device"); i++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await model.dispose();
  zoo.dispose();
  return { order, target, y: [...y] };
}

export async function ofF16(feeds) {
  const zoo = await open({ backend: "webgpu" });
  const x = Float32Array.from(feeds.v0);
  const opened = async (model) => {
    const outputs = await model.run({ v0: x });
    const { target, memoryBytes } = model.plan;
    return { model, target, memoryBytes, y: [...outputs.out0], dtype: model.outputs[0].dtype };
  };
  const first = await opened(await zoo.model("half", { save: "half" }));
  await first.model.saved;
  await first.model.dispose();
  const kept = await opened(await zoo.loadGraph("half"));
  await kept.model.dispose();
  const lost = await opened(await zoo.model("half"));
  new BroadcastChannel("lose").postMessage(null);
  const after = await opened(lost.model);
  await lost.model.dispose();
  zoo.dispose();
  return [first, kept, lost, after].map(({ model, ...told }) => told);
}

export async function beyondF16(feeds) {
  const zoo = await open({ backend: "webgpu" });
  const model = await zoo.model("half");
  const heard = [];
  model.on("devicelost", ({ reason }) => heard.push(reason));
  const x = Float32Array.from(feeds.v0, (entry) => 1e6 * entry);
  const targets = [model.plan.target];
  let outputs;
  for (let i = 0; i < 2; i++) {
    outputs = await model.run({ v0: x });
    targets.push(model.plan.target);
  }
  await model.dispose();
  zoo.dispose();
  return { targets, heard, y: [...outputs.out0] };
}

export async function within(feeds) {
  const zoo = await open({ backend: "webgpu" });
  const model = await zoo.model("faint", { tune: "idle" });
  const heard = [];
  model.on("devicelost", ({ reason }) => heard.push(reason));
  const small = Float32Array.from(feeds.x);
  const large = new Float32Array(small.length).fill(1e4);
  const run = async (x) => [...(await model.run({ x })).y];
  for (let i = 0; i < 60; i++) await run(small);
  const before = model.plan.target;
  const first = await run(large);
  let runs = 1;
  let y = first;
  while (model.plan.target === "webgpu" && runs++ < 500) y = await run(large);
  const { target } = model.plan;
  await model.dispose();
  zoo.dispose();
  return { before, target, heard, first, y, runs };
}

export async function bound(feeds) {
  const zoo = await open({ backend: "webgpu" });
  const model = await zoo.model("small");
  const outputs = await model.run(feeds);
  const { target, targetReason } = model.plan;
  await model.dispose();
  zoo.dispose();
  const plain = ([name, data]) => [name, [...data].map(Number)];
  return { target, targetReason, outputs: Object.fromEntries(Object.entries(outputs).map(plain)) };
}

export async function wide(feeds) {
  const found = {};
  for (const backend of ["wasm", "webgpu"]) {
    const zoo = await open({ backend });
    const model = await zoo.model("wide");
    const { y } = await model.run(feeds);
    found[backend] = { target: model.plan.target, memoryBytes: model.memoryBytes, y: [...y] };
    await model.dispose();
    zoo.dispose();
  }
  return found;
}

export async function beyond(feeds) {
  const memoryBytes = 2 ** 34;
  const wasm = await open({ backend: "wasm" });
  const refused = await refusal(() => wasm.model("beyond", { memoryBytes }));
  const little = await refusal(() => wasm.model("beyond", { memoryBytes: 2 ** 30 }));
  wasm.dispose();
  const zoo = await open({ backend: "auto" });
  const model = await zoo.model("beyond", { memoryBytes });
  const outputs = await model.run(feeds);
  const { target } = model.plan;
  await model.dispose();
  zoo.dispose();
  const plain = ([name, data]) => [name, [...data].map(Number)];
  const lists = Object.fromEntries(Object.entries(outputs).map(plain));
  return { refused, little, target, outputs: lists };
}
