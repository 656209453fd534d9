import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { memoryNotebook } from "../src/device/notebook.js";
import { Arena } from "../src/engine/arena.js";
import { KernelZooError } from "../src/engine/error.js";
import type { Stored } from "../src/executor/golden-tensors.js";
import type { FromRuntime, LoadOrder, ToRuntime } from "../src/executor/messages.js";
import { type RuntimeWorker, WorkerFailure } from "../src/executor/worker-client.js";
import { deadline } from "../src/gateway/deadline.js";
import { Failures } from "../src/gateway/failures.js";
import type { Host } from "../src/model/host.js";
import { Model } from "../src/model/model.js";
import { Opener } from "../src/model/opener.js";
import { type Answered, requestModel } from "../src/model/request.js";
import { Threads } from "../src/threads/threads.js";
import type { ModelAnswer } from "../src/wire/model-answer.js";
import type { FailureReport } from "../src/wire/types.js";
import { bytesOf, type Tiny, tinyKernel } from "./kernels.js";
import { CLASS, ELEMENTS, KEY, manifestOf } from "./zoo.js";

/** A host whose failures are told to `told`. */
function hostOf(origin: string, told: FailureReport[] = []): Host {
  const source = {
    pins: null,
    maxAgeMs: null,
    bundle: undefined,
    deadline: deadline(1000, undefined),
  };
  const arena = new Arena();
  const gpu = { kind: "none", reason: null } as const;
  return {
    origin: new URL(origin),
    ...source,
    hardware: null,
    forbidden: null,
    arena,
    deviceClass: CLASS,
    failures: new Failures((report) => told.push(report)),
    threads: new Threads(arena, 1),
    backend: "wasm",
    gpu,
    openGpu: async () => gpu,
    shares: false,
    notes: memoryNotebook(),
  };
}

const answeredOf = (answer: ModelAnswer): Answered => ({ answer, origin: "http://zoo.test/" });

function answerOf(kernel: Tiny): ModelAnswer {
  const [entry] = manifestOf(tinyKernel(kernel, ELEMENTS)).entries;
  const port = { dtype: "float32", shape: [ELEMENTS] } as const;
  const file = { url: "/v1/blobs/x", sha256: "", size_bytes: 1 };
  const tensor = { dtype: "f32", shape: [ELEMENTS], at: 0 } as const;
  return {
    model: 1,
    name: "tiny",
    device_class: CLASS,
    dimensions: {},
    precision: "f32",
    precision_reason: "The model has no other here.",
    plan: {
      needs: [],
      model: "tiny",
      dimensions: {},
      inputs: [{ name: "a", ...port, tensor: 0 }],
      outputs: [{ name: "c", ...port, tensor: 1 }],
      tensors: [tensor, { ...tensor, at: 64 }],
      weights: [],
      chunks: [],
      kernels: [KEY],
      calls: [{ kernel: 0, tensors: [0, 0, 1], label: "sum" }],
      memory: { weights: 0, activations: 128 },
      golden: { sha256: "g", inputs: [], outputs: [], tolerance: 1e-4 },
    },
    weights: file,
    golden: file,
    module: null,
    kernels: { [KEY]: entry?.wasm as NonNullable<typeof entry>["wasm"] & object },
    missing: [],
    issued_at: "",
    serial: 1,
    signatures: [],
  };
}

type Reply = (message: ToRuntime) => FromRuntime | null;

/** Workers that answer as `reply` says, and the orders that they were given. */
function workers(reply: Reply) {
  const orders: LoadOrder[] = [];
  const state = { ended: 0 };
  const spawn = (): RuntimeWorker => {
    const worker: RuntimeWorker = {
      onmessage: null,
      onerror: null,
      terminate: () => void state.ended++,
      postMessage(message) {
        if (message.type === "load") orders.push(message.order);
        const data = reply(message);
        const replies = data?.type === "loaded" ? [data, { type: "complete" } as const] : [data];
        for (const each of replies.filter((one) => one !== null)) {
          queueMicrotask(() => worker.onmessage?.({ data: each } as MessageEvent<FromRuntime>));
        }
      },
    };
    return worker;
  };
  return { orders, state, spawn };
}

const LOADED = { memoryBytes: 1000, threads: 1, singleThreadReason: null };
const ORDER = {
  check: true,
  graph: null,
  memoryBytes: undefined,
  progress: () => undefined,
  signal: undefined,
};
const loaded = (): FromRuntime => ({ type: "loaded", loaded: LOADED });
const done = (id: number): FromRuntime => ({
  type: "done",
  id,
  feeds: [],
  outputs: [new Float32Array(ELEMENTS).fill(7)],
  times: new Float64Array(3),
});
const refusedFor = (stage: "compare" | "run", fault: boolean): FromRuntime => {
  const { sha256 } = tinyKernel("subtract", ELEMENTS);
  const blamed = { workload: KEY, artifact: sha256, stage, message: "it is wrong" };
  return { type: "refused", failure: { stage, message: "wrong", fault: fault ? blamed : null } };
};

/** Serves tiny kernels, and JSON for other paths; answers what was asked for. */
function serve(t: TestContext, json: (path: string) => unknown): string[] {
  const asked: string[] = [];
  const tiny: readonly Tiny[] = ["add", "subtract"];
  const bodies = new Map(tiny.map((name) => [tinyKernel(name, 1).url, bytesOf(name)]));
  t.mock.method(globalThis, "fetch", async (url: URL) => {
    asked.push(url.pathname + url.search);
    const body = bodies.get(url.pathname);
    if (body !== undefined) return new Response(body);
    const found = json(url.pathname);
    return found instanceof Response ? found : Response.json(found);
  });
  return asked;
}

test("a gateway is asked for a model of these dimensions and this class", async (t) => {
  const asked = serve(t, () => answerOf("add"));
  const zoo = hostOf("http://zoo.test/behind/");
  const { answer, origin } = await requestModel(zoo, "tiny", { sequence: 128 });
  assert.equal(answer.name, "tiny");
  assert.equal(origin, "http://zoo.test/behind/");
  assert.deepEqual(asked, [`/behind/v1/models/tiny/${encodeURIComponent(CLASS)}?sequence=128`]);
});

test("a model that the zoo does not have is refused with the command that adds it", async (t) => {
  serve(t, () => Response.json({ detail: "none" }, { status: 404 }));
  await assert.rejects(
    requestModel(hostOf("http://zoo.test/"), "tiny", {}),
    /kernelzoo models add FILE --name tiny/,
  );
});

test("a bundle's model is chosen by its dimensions, and a file is read as it is", async (t) => {
  const model = (sequence: number) => ({
    name: "tiny",
    dimensions: { sequence },
    device_classes: [CLASS],
    url: `/v1/models/${sequence}.json`,
  });
  const bundle = { bundle: 1, set: "s", manifests: [], models: [model(64), model(128)] };
  const asked = serve(t, (path) => (path.endsWith("bundle.json") ? bundle : answerOf("add")));
  const zoo = hostOf("http://zoo.test/kernels/bundle.json");
  await requestModel(zoo, "tiny", { sequence: 128 });
  assert.deepEqual(asked, ["/kernels/bundle.json", "/kernels/v1/models/128.json"]);
  await assert.rejects(requestModel(zoo, "tiny", { sequence: 9 }), /no model tiny with sequence 9/);
  const { origin } = await requestModel(zoo, "http://cdn.test/models/tiny.json", {});
  assert.equal(origin, "http://cdn.test/models/tiny.json");
});

test("what is no model is refused", async (t) => {
  serve(t, () => ({ hello: "world" }));
  const zoo = hostOf("http://zoo.test/");
  await assert.rejects(requestModel(zoo, "tiny", {}), /is no model for this SDK/);
});

test("a plan that needs what the SDK does not know is refused, and so is a language model", async (t) => {
  const { plan, ...answer } = answerOf("add");
  let needs = ["stored", "sparse"];
  serve(t, () => ({ ...answer, plan: { ...plan, needs } }));
  const zoo = hostOf("http://zoo.test/");
  const unknown = /The plan of tiny needs "sparse", which this SDK does not know: update kernelzoo/;
  await assert.rejects(requestModel(zoo, "tiny", {}), unknown);
  needs = ["states"];
  await assert.rejects(requestModel(zoo, "tiny", {}), /open it by zoo\.languageModel\(\)/);
  const { answer: opened } = await requestModel({ ...zoo, states: true }, "tiny", {});
  assert.deepEqual(opened.plan.needs, ["states"]);
  needs = ["stored"];
  await requestModel(zoo, "tiny", {});
});

test("golden outputs are compared once on a device for the same kernels", async () => {
  const { orders, spawn } = workers(loaded);
  const zoo = hostOf("http://zoo.test/");
  const answer = answerOf("add");
  const changed = answerOf("idle");
  for (const each of [answer, answer, changed]) {
    const opener = new Opener(zoo, answeredOf(each), ORDER, spawn);
    const { session } = await opener.open();
    await session.complete;
    await Promise.resolve();
    opener.close(new Error("done"));
  }
  assert.deepEqual(
    orders.map(({ check }) => check),
    [true, false, true],
  );
});

test("wrong golden outputs lead to the kernel that differs from its default", async (t) => {
  serve(t, () => null);
  const told: FailureReport[] = [];
  const zoo = hostOf("http://zoo.test/", told);
  const { orders, state, spawn } = workers((message) =>
    message.type === "load" && message.order.replaced.length > 0
      ? loaded()
      : refusedFor("compare", false),
  );
  const answered = answeredOf(answerOf("subtract"));
  const opener = new Opener(zoo, answered, ORDER, spawn);
  const opened = await opener.open();
  assert.deepEqual([...opened.fallbacks.keys()], [KEY]);
  assert.deepEqual(
    orders.map(({ replaced }) => replaced),
    [[], [KEY]],
  );
  assert.deepEqual(
    told.map(({ workload, stage }) => [workload, stage]),
    [[KEY, "compare"]],
  );
  assert.equal(state.ended, 1, "the first worker");
  opener.close(new Error("done"));
});

test("a model that is wrong on default kernels is refused, and its memory is given back", async () => {
  const { spawn } = workers(() => refusedFor("compare", false));
  const answered = answeredOf(answerOf("add"));
  const order = { ...ORDER, memoryBytes: 200 };
  for (let i = 0; i < 2; i++) {
    const opener = new Opener(hostOf("http://zoo.test/"), answered, order, spawn);
    await assert.rejects(opener.open(), (thrown) => (thrown as KernelZooError).stage === "compare");
  }
});

test("a model that is wrong on default kernels is told to its zoo once, and to no static host", async (t) => {
  const bodies: unknown[] = [];
  t.mock.method(globalThis, "fetch", async (url: URL, { body }: RequestInit) => {
    bodies.push([url.href, JSON.parse(String(body))]);
    return Response.json({ noted: true });
  });
  const failure = { stage: "compare", message: "wrong", fault: null, output: "c" } as const;
  const { spawn } = workers(() => ({ type: "refused", failure }));
  const answer = answerOf("add");
  const places = ["models/tiny.json", "zoo/bundle.json", "zoo/", "zoo/"];
  for (const origin of places.map((place) => `http://zoo.test/${place}`)) {
    const opener = new Opener(hostOf("http://zoo.test/"), { answer, origin }, ORDER, spawn);
    await assert.rejects(opener.open(), KernelZooError);
  }
  const told = { model: "tiny", golden: "g", device_class: CLASS, output: "c" };
  assert.deepEqual(bodies, [["http://zoo.test/zoo/v1/wrong-outputs", told]]);
});

test("a kernel that traps in a run is replaced, and the run is repeated", async () => {
  const told: FailureReport[] = [];
  const zoo = hostOf("http://zoo.test/", told);
  let failing = true;
  const { orders, spawn } = workers((message) => {
    if (message.type === "load") return loaded();
    if (message.type !== "run") return null;
    const trapped = refusedFor("run", true) as Extract<FromRuntime, { type: "refused" }>;
    const failed = { type: "failed", id: message.id, failure: trapped.failure } as const;
    const reply = failing ? failed : done(message.id);
    failing = false;
    return reply;
  });
  const answered = answeredOf(answerOf("subtract"));
  const opener = new Opener(zoo, answered, ORDER, spawn);
  const model = new Model(opener, await opener.open());
  const heard: string[] = [];
  model.on("fallback", ({ workload }) => heard.push(workload));
  const { c } = await model.run({ a: new Float32Array(ELEMENTS) });
  assert.equal(c?.[0], 7);
  assert.deepEqual(heard, [KEY]);
  assert.equal(model.plan.calls[0]?.fallbackReason, "it is wrong");
  assert.equal(model.plan.calls[0]?.level, "default");
  assert.deepEqual(
    told.map(({ stage }) => stage),
    ["run"],
  );
  assert.equal(orders.at(-1)?.replaced.length, 1);
  await model.dispose();
  await assert.rejects(model.run({ a: new Float32Array(ELEMENTS) }), /was disposed of/);
});

test("the memory of feeds serves the next run, and never one that is under way", async () => {
  const seen: (readonly Stored[])[] = [];
  const { spawn } = workers((message) => {
    if (message.type !== "run") return message.type === "load" ? loaded() : null;
    seen.push(message.feeds.map((each) => each.slice()));
    const { id, feeds } = message;
    given.push(feeds);
    return { ...done(id), feeds } as FromRuntime;
  });
  const given: (readonly Stored[])[] = [];
  const opener = new Opener(hostOf("http://zoo.test/"), answeredOf(answerOf("add")), ORDER, spawn);
  const model = new Model(opener, await opener.open());
  const a = new Float32Array(ELEMENTS);
  for (const value of [1, 2]) await model.run({ a: a.fill(value) });
  const both = [3, 4].map((value) => model.run({ a: a.fill(value) }));
  a.fill(9);
  await Promise.all(both);
  assert.deepEqual(
    seen.map(([each]) => each?.at(-1)),
    [1, 2, 3, 4],
  );
  assert.equal(given[0]?.[0], given[1]?.[0], "fresh memory for a second run");
  assert.notEqual(given[2]?.[0], given[3]?.[0]);
  assert.notEqual(given[0]?.[0]?.buffer, a.buffer);
  await model.dispose();
});

test("a GPU that is lost is replaced by WebAssembly where memory suffices for its plan", async () => {
  const onGpu = { ...answerOf("add"), device_class: CLASS.replace("wasm", "webgpu") };
  const wasm = answerOf("add");
  const larger = { ...wasm, plan: { ...wasm.plan, memory: { weights: 0, activations: 1500 } } };
  for (const [memoryBytes, fits] of [
    [1499, false],
    [1500, true],
  ] as const) {
    const { orders, spawn } = workers(loaded);
    const spare = async (): Promise<Answered> => answeredOf(larger);
    const answered = { ...answeredOf(onGpu), spare };
    const order = { ...ORDER, memoryBytes, source: "" };
    const opener = new Opener(hostOf("http://zoo.test/"), answered, order, spawn);
    const opened = await opener.open();
    const lost = new WorkerFailure({ stage: "validate", message: "it was lost", fault: null });
    const reopened = opener.reopen(opened, lost);
    if (fits) await reopened;
    else await assert.rejects(reopened, /tiny takes 1 MiB; 1 MiB are left/);
    assert.equal(orders.length, fits ? 2 : 1, "no worker is started without memory");
    opener.close(new Error("done"));
  }
});

/** A model of f16 on a GPU whose outputs are NaN; on WebAssembly they are 7. */
function overflowing(spare: boolean, plain: number = 7) {
  const wasm = answerOf("add");
  const device_class = CLASS.replace("wasm", "webgpu");
  const onGpu = { ...wasm, device_class, plan: { ...wasm.plan, needs: ["f16"] } };
  const { orders, spawn } = workers((message) => {
    if (message.type !== "run") return message.type === "load" ? loaded() : null;
    const right = done(message.id) as Extract<FromRuntime, { type: "done" }>;
    const value = orders.length > 1 ? plain : Number.NaN;
    return { ...right, outputs: [new Float32Array(ELEMENTS).fill(value)] };
  });
  const other = { spare: async (): Promise<Answered> => answeredOf(wasm) };
  const answered = { ...answeredOf(onGpu), ...(spare ? other : {}) };
  const opener = new Opener(hostOf("http://zoo.test/"), answered, { ...ORDER, source: "" }, spawn);
  return { orders, opener };
}

test("a run that leaves f16 is repeated in f32, where all that follow run", async () => {
  const { orders, opener } = overflowing(true);
  const model = new Model(opener, await opener.open());
  const told: (string | null)[] = [];
  model.on("devicelost", ({ reason }) => told.push(reason));
  for (let i = 0; i < 2; i++) {
    const { c } = await model.run({ a: new Float32Array(ELEMENTS).fill(5) });
    assert.equal(c?.[0], 7);
  }
  assert.equal(orders.length, 2);
  assert.equal(model.plan.target, "wasm");
  assert.deepEqual(told, [
    "A run of tiny left the numbers of f16: values of it are infinite or no numbers.",
  ]);
  await model.dispose();
});

test("NaN of feeds is no overflow of f16, and that of f32 is the model's own", async () => {
  const first = overflowing(true);
  const model = new Model(first.opener, await first.opener.open());
  const { c } = await model.run({ a: new Float32Array(ELEMENTS).fill(Number.NaN) });
  assert.equal(Number.isNaN(c?.[0]), true);
  assert.equal(first.orders.length, 1);
  await model.dispose();
  const second = overflowing(true, Number.POSITIVE_INFINITY);
  const own = new Model(second.opener, await second.opener.open());
  const found = await own.run({ a: new Float32Array(ELEMENTS) });
  assert.equal(found.c?.[0], Number.POSITIVE_INFINITY);
  assert.equal(second.orders.length, 2);
  await own.dispose();
});

test("without a plan of f32 a run that leaves f16 is refused", async () => {
  const { opener } = overflowing(false);
  const model = new Model(opener, await opener.open());
  const message =
    "A run of tiny left the numbers of f16: values of it are infinite or no numbers. " +
    "Give it smaller inputs, or have it added with --dtype f32.";
  const run = model.run({ a: new Float32Array(ELEMENTS) });
  await assert.rejects(run, { stage: "run", message });
  await model.dispose();
});

test("a load that is aborted ends its worker and rejects with the reason", async () => {
  const abort = new AbortController();
  const { state, spawn } = workers(() => {
    setTimeout(() => abort.abort(new Error("gone")));
    return null;
  });
  const answered = answeredOf(answerOf("add"));
  const order = { ...ORDER, signal: abort.signal };
  const opening = new Opener(hostOf("http://zoo.test/"), answered, order, spawn).open();
  await assert.rejects(opening, /gone/);
  assert.ok(state.ended > 0);
});
