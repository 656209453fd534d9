/** Pages that run models, as tests/browser/test_models.py asks for them. */
import { KernelZoo } from "../client/sdk.js";
import { host, open, refusal } from "./zoo.js";

export async function inJavascript(feeds) {
  const zoo = await KernelZoo.open(host);
  const model = await zoo.model(`${host}/plain.json`);
  const outputs = await model.run({ ids: feeds.ids, x: feeds.x });
  await model.complete();
  const { target, targetReason } = model.plan;
  const plain = ([name, data]) => [name, [...data].map(Number)];
  const found = Object.fromEntries(Object.entries(outputs).map(plain));
  await model.dispose();
  const others = [
    await refusal(() => zoo.model(`${host}/small.json`)),
    await refusal(() => new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))),
  ];
  const bundle = await KernelZoo.open(`${host}/bundle.json`);
  const products = [];
  for (const each of [zoo, bundle]) {
    const kernel = await each.kernel("matmul:f32:m9k33n20", { constant: { b: feeds.b } });
    const { backend, backendReason } = kernel.info;
    const first = [...(await kernel.runAsync({ a: feeds.a }))];
    kernel.inputs.a.fill(0);
    const zero = [...(await kernel.runAsync())];
    kernel.setConstants({ b: feeds.b.map((entry) => 2 * entry) });
    const twice = [...(await kernel.runAsync({ a: feeds.a }))];
    const { ok } = await kernel.verify();
    const refused = await refusal(() => kernel.run());
    kernel.dispose();
    products.push({ backend, backendReason, first, zero, twice, ok, refused });
  }
  const ofBytes = await zoo.kernel("matmul_i8:f32:m9k33n21");
  const bytes = [...(await ofBytes.runAsync({ a: feeds.a, b: feeds.bytes }))];
  const halves = await refusal(() => zoo.kernel("matmul:f16:m8k8n8"));
  return { found, target, targetReason, others, products, bytes, halves };
}

export async function run(feeds) {
  const seen = [];
  const zoo = await open();
  const model = await zoo.model(`${host}/small.json`, { onProgress: (p) => seen.push(p) });
  const give = { ids: BigInt64Array.from(feeds.ids, BigInt), x: Float32Array.from(feeds.x) };
  const [first, second] = await Promise.all([model.run(give), model.run(feeds)]);
  await model.complete();
  const profile = await model.profile({ runs: 2 });
  const types = Object.values(first).map((each) => each.constructor.name);
  const plain = ([name, data]) => [name, [...data].map(Number)];
  const listed = (outputs) => Object.fromEntries(Object.entries(outputs).map(plain));
  const result = {
    first: listed(first),
    second: listed(second),
    types,
    isolated: crossOriginIsolated,
    inputs: model.inputs,
    plan: model.plan,
    phases: seen,
    table: profile.table(),
    events: profile.trace().traceEvents,
  };
  await model[Symbol.asyncDispose]();
  result.after = await refusal(() => model.run(feeds));
  return result;
}

export async function typed(feeds) {
  const model = await (await open()).model(`${host}/typed.json`);
  const { whole, flag, byte } = feeds;
  const plain = (outputs) =>
    Object.fromEntries(
      Object.entries(outputs).map(([name, data]) => [name, [...data].map(Number)]),
    );
  const arrays = { whole: Int32Array.from(whole), flag: Uint8Array.from(flag) };
  const first = await model.run({ ...arrays, byte: Uint8Array.from(byte) });
  const types = Object.values(first).map((data) => data.constructor.name);
  const found = { first: plain(first), types, second: plain(await model.run(feeds)), refused: [] };
  for (const wrong of [{ byte: [0, 1, 2, 3, 256] }, { flag: [0, 1, 2, 1, 0] }])
    found.refused.push(await refusal(() => model.run({ ...feeds, ...wrong })));
  await model.dispose();
  return found;
}

export async function refuse(feeds) {
  const model = await (await open()).model(`${host}/small.json`, { check: false });
  const { ids, x } = feeds;
  const shaped = (data, shape) => ({ data, shape });
  const all = [];
  for (const wrong of [
    { ids },
    { ids, x, z: [1] },
    { ids: ids.slice(1), x },
    { ids, x: shaped(x, [20, 9]) },
    { ids: ids.map((i) => i + 0.5), x },
    { ids: ids.map(() => 2 ** 40), x },
    { ids, x: BigInt64Array.from(x, () => 1n) },
  ])
    all.push(await refusal(() => model.run(wrong)));
  all.push(await refusal(() => model.run({ ids, x }, { sinal: undefined })));
  for (const into of [null, 7, "y", x, { y: x }])
    all.push(await refusal(() => model.run({ ids, x }, { into })));
  all.push(await refusal(() => model.profile({ run: 2 })));
  await model.dispose();
  all.push(await refusal(() => open().then((zoo) => zoo.model(`${host}/none.json`))));
  all.push(
    await refusal(() =>
      open().then((zoo) => zoo.model(`${host}/small.json`, { memoryBytes: 1000 })),
    ),
  );
  return all;
}

export async function stop(feeds) {
  const zoo = await open();
  const early = new AbortController();
  const loading = refusal(() => zoo.model(`${host}/deep.json`, { signal: early.signal }));
  early.abort(new Error("gone"));
  const model = await zoo.model(`${host}/deep.json`);
  const small = await zoo.model(`${host}/small.json`);
  const x = Float32Array.from(feeds.x);
  const whole = performance.now();
  const output = await model.run({ x });
  const wholeMs = performance.now() - whole;
  const stop = new AbortController();
  const stopped = refusal(() => model.run({ x }, { signal: stop.signal }));
  const next = model.run({ x });
  await new Promise((resolve) => setTimeout(resolve, wholeMs / 8));
  const at = performance.now();
  stop.abort(new Error("enough"));
  const reason = await stopped;
  const stopMs = performance.now() - at;
  const again = await next;
  const beside = await small.run({ ids: feeds.ids, x: feeds.rows });
  const left = model.plan.memoryBytes + small.plan.memoryBytes;
  await model.dispose();
  await small.dispose();
  return {
    loading: await loading,
    reason,
    stopMs,
    wholeMs,
    left,
    y: [...output.y],
    again: [...again.y],
    beside: [...beside.y],
  };
}

export async function deep(feeds) {
  const zoo = await open({ threads: 2 });
  const model = await zoo.model(`${host}/deep.json`);
  const x = Float32Array.from(feeds.x);
  let output;
  for (let i = 0; i < 4; i++) output = await model.run({ x });
  const stop = new AbortController();
  const stopped = refusal(() => model.run({ x }, { signal: stop.signal }));
  setTimeout(() => stop.abort(new Error("enough")), 10);
  const reason = await stopped;
  const { calls } = await model.profile({ runs: 1 });
  const { threads, singleThreadReason } = model.plan;
  await model.dispose();
  zoo.dispose();
  return {
    y: [...output.y],
    threads,
    singleThreadReason,
    reason,
    used: calls.map((call) => call.threads),
    isolated: crossOriginIsolated,
  };
}

export async function wrong(feeds) {
  const zoo = await open();
  const model = await zoo.model(`${host}/${feeds.kind}.json`, { check: "first" });
  const output = await model.run(feeds.inputs);
  const { calls } = model.plan;
  await model.dispose();
  return { y: [...output.y], fell: calls.filter((call) => call.fallbackReason !== null) };
}

export async function late(feeds) {
  const zoo = await open();
  const model = await zoo.model(`${host}/late.json`);
  const fell = [];
  model.on("fallback", ({ workload }) => fell.push(workload));
  const first = await model.run(feeds);
  await model.complete();
  const second = await model.run(feeds);
  await model.dispose();
  return { first: [...first.y], second: [...second.y], fell };
}

export async function slow(feeds) {
  const model = await (await open()).model(`${host}/slow.json`);
  const running = model.run({ x: Float32Array.from(feeds.x) });
  const stop = new AbortController();
  const stopped = refusal(() => model.run(feeds, { signal: stop.signal }));
  stop.abort(new Error("enough"));
  const before = await fetch(`${host}/rest`, { method: "POST", body: "{}" }).then(() => "asked");
  return { y: [...(await running).y], stopped: await stopped, before };
}

export async function fewBits(feeds) {
  const seen = [];
  const zoo = await open();
  const options = { save: "few", onProgress: (p) => seen.push(p) };
  const outputs = [];
  for (let visit = 0; visit < 2; visit++) {
    const model = await zoo.model(`${host}/few.json`, options);
    outputs.push([...(await model.run(feeds)).y]);
    await model.complete();
    await model.saved;
    await model.dispose();
  }
  return { outputs, seen };
}

export async function ofBytes(feeds) {
  const model = await (await open()).model(`${host}/bytes.json`, { check: true });
  const { tokens, mask } = feeds;
  const [output] = Object.values(await model.run({ tokens, mask }));
  await model.complete();
  await model.dispose();
  return [...output];
}

export async function opened(feeds) {
  const zoo = await open();
  const model = await zoo.model(`${host}/deep.json`);
  const { y } = await model.run(feeds);
  await model.dispose();
  return { y: [...y], isolated: crossOriginIsolated };
}

export async function smallAndLarge(feeds) {
  const zoo = await open();
  const found = [];
  for (const name of ["deep", "large"]) {
    const model = await zoo.model(`${host}/${name}.json`);
    const { y } = await model.run(feeds[name]);
    found.push([[...y], globalThis.started]);
    await model.dispose();
  }
  return found;
}

export async function noClass(feeds) {
  const zoo = await open();
  const model = await zoo.model(`${host}/few.json`);
  const { y } = await model.run(feeds);
  await model.complete();
  await model.dispose();
  return [...y];
}

export async function isolatedRun(feeds) {
  const zoo = await open({ threads: 2 });
  const model = await zoo.model(`${host}/small.json`);
  await model.complete();
  const ids = BigInt64Array.from(feeds.ids, BigInt);
  const give = { ids, x: Float32Array.from(feeds.x) };
  await model.run(give);
  const outputs = Object.entries(await model.run(give));
  const first = Object.fromEntries(outputs.map(([name, data]) => [name, [...data].map(Number)]));
  const { threads, singleThreadReason } = model.plan;
  return { isolated: crossOriginIsolated, first, threads, singleThreadReason };
}

/** A visit of a page that says nothing of its device. */
export async function unprobed(feeds) {
  const zoo = await KernelZoo.open(host, { backend: "wasm" });
  const model = await zoo.model(`${host}/small.json`);
  const { y } = await model.run(feeds);
  await model.complete();
  const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
  return { y: [...y], loaded, notes: Object.keys(localStorage), class: zoo.deviceClass };
}

export async function runOften(feeds, name) {
  const zoo = await KernelZoo.open(host, { backend: "wasm" });
  const model = await zoo.model(`${host}/${name}.json`, { check: false });
  let outputs;
  for (let i = 0; i < 5; i++) outputs = await model.run(feeds);
  return [...outputs.y];
}

export function openChanged() {
  return refusal(async () => {
    // What was right before, of the same name by its hash, is not compared again.
    localStorage.clear();
    const model = await (await open()).model(`${host}/changed.json`);
    await model.complete();
  });
}

/**
 * Runs a model until no run is sent to a worker any more, and then more often, by a clock that goes so
 * slowly that no other process makes a run of this thread long.
 */
export async function short(feeds) {
  const sent = [];
  const { now } = performance;
  const { postMessage } = Worker.prototype;
  Worker.prototype.postMessage = function (message, ...others) {
    sent.push(message.type);
    return postMessage.call(this, message, ...others);
  };
  try {
    const model = await (await open()).model(`${host}/small.json`);
    const inWorker = (await model.run(feeds)).y;
    const runs = () => sent.filter((type) => type === "run").length;
    const until = performance.now() + 120_000;
    performance.now = () => now.call(performance) / 20;
    for (let before = -1; before < runs() && now.call(performance) < until; ) {
      before = runs();
      await model.run(feeds);
    }
    const [before, stop] = [runs(), new AbortController()];
    const here = await Promise.all([model.run(feeds), model.run(feeds)]);
    let turns = 0;
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      turns += 1;
      port2.postMessage(null);
    };
    port2.postMessage(null);
    for (const from = performance.now(); performance.now() < from + 50; ) await model.run(feeds);
    port1.close();
    stop.abort(new Error("enough"));
    const outcome = {
      inWorker: [...inWorker],
      here: here.map(({ y }) => [...y]),
      sent: runs() - before,
      turns,
      stopped: await refusal(() => model.run(feeds, { signal: stop.signal })),
      misfit: await refusal(() => model.run({ ...feeds, x: [1] })),
      timed: (await model.profile({ runs: 2 })).calls.length,
    };
    await model.run(feeds);
    for (const from = performance.now(); performance.now() < from + 5; );
    const waiting = refusal(() => model.run(feeds));
    await model.dispose();
    return { ...outcome, waiting: await waiting, after: await refusal(() => model.run(feeds)) };
  } finally {
    performance.now = now;
    Worker.prototype.postMessage = postMessage;
  }
}
