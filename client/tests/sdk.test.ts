import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { minify } from "terser";
import { buildSdk } from "../bundles.js";
import { CompileDeadline, SharedDeadline } from "../src/backend/webgpu/deadlines.js";
import { Failures, postReport } from "../src/gateway/failures.js";
import { KernelZoo, type KernelZooError } from "../src/sdk/index.js";
import { registerCommand } from "../src/sdk/refusals.js";
import type { FailureReport, Manifest } from "../src/wire/types.js";
import { WORKERS } from "../src/workers.js";
import { bytesOf, tinyKernel } from "./kernels.js";
import { CLASS, ELEMENTS, filled, KEY, manifestOf, open, serve } from "./zoo.js";

test("a kernel runs on its inputs and says what it is", async (t) => {
  const asked = serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const kernel = await (await open()).kernel(KEY);
  kernel.inputs.a?.fill(2);
  const output = kernel.run({ b: new Array(ELEMENTS).fill(3) });
  assert.deepEqual([...output], new Array(ELEMENTS).fill(5));
  assert.equal(output, kernel.output);
  assert.deepEqual(kernel.shapes.c, [ELEMENTS]);
  assert.equal(kernel.info.level, "exact");
  assert.equal(kernel.info.grounds?.identities, 5);
  assert.equal(kernel.info.evidence?.ballots, 5);
  assert.equal(kernel.info.fallbackReason, null);
  assert.equal(asked[0], `/v1/zoo/${KEY}/${CLASS}`);
});

test("best and fallback of a workload take one manifest request", async (t) => {
  const asked = serve(t, manifestOf(tinyKernel("subtract", ELEMENTS)));
  const zoo = await open();
  const [best, usual] = await Promise.all([zoo.kernel(KEY), zoo.kernel(KEY, { use: "fallback" })]);
  const inputs = { a: new Array(ELEMENTS).fill(5), b: new Array(ELEMENTS).fill(1) };
  assert.equal(best.run(inputs)[0], 4);
  assert.equal(usual.run(inputs)[0], 6);
  assert.equal(asked.filter((path) => path.startsWith("/v1/zoo")).length, 1);
});

test("verification finds a wrong kernel and leaves inputs and output alone", async (t) => {
  serve(t, manifestOf(tinyKernel("subtract", ELEMENTS)));
  const kernel = await (await open()).kernel(KEY);
  kernel.inputs.a?.fill(7);
  assert.equal((await kernel.verify()).ok, false);
  assert.equal(kernel.inputs.a?.[0], 7);
  assert.equal(kernel.output[0], 0);
});

test("verification passes the kernel that the fallback is", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const verification = await (await (await open()).kernel(KEY)).verify();
  assert.deepEqual([verification.ok, verification.maxError], [true, 0]);
});

test("a kernel that does not load is replaced by the default, with the reason", async (t) => {
  serve(t, manifestOf({ ...tinyKernel("subtract", ELEMENTS), sha256: "0".repeat(64) }));
  const kernel = await (await open()).kernel(KEY);
  assert.match(kernel.info.fallbackReason ?? "", /SHA-256/);
  assert.equal(kernel.info.sha256, tinyKernel("add", ELEMENTS).sha256);
});

/** Bodies of the failures that a page tells. */
function toldTo(t: TestContext, manifest: Manifest): FailureReport[] {
  serve(t, manifest);
  const served = globalThis.fetch;
  const told: FailureReport[] = [];
  t.mock.method(globalThis, "fetch", async (url: URL, init?: RequestInit) => {
    if (url.pathname !== "/v1/failures") return served(url, init);
    told.push(JSON.parse(String(init?.body)) as FailureReport);
    throw new TypeError("the zoo is away");
  });
  return told;
}

test("a kernel that traps is told to the zoo once and is the default from then on", async (t) => {
  const told = toldTo(t, manifestOf(tinyKernel("trap", ELEMENTS)));
  const zoo = await open();
  const kernel = await zoo.kernel(KEY);
  assert.throws(() => kernel.run(), /trapped/);
  assert.throws(() => kernel.run(), /trapped/);
  const again = await zoo.kernel(KEY);
  assert.match(again.info.fallbackReason ?? "", /trapped/);
  assert.equal(again.run({ a: filled(1), b: filled(2) })[0], 3);
  const { sha256 } = tinyKernel("trap", ELEMENTS);
  assert.deepEqual(
    told.map(({ detail, ...rest }) => rest),
    [{ workload: KEY, device_class: CLASS, artifact: sha256, stage: "run" }],
  );
});

for (const [name, stage] of [
  ["trap", "run"],
  ["subtract", "compare"],
] as const) {
  test(`a page that wants kernels verified is handed the default for one that fails (${name})`, async (t) => {
    const told = toldTo(t, manifestOf(tinyKernel(name, ELEMENTS)));
    const kernel = await (await open()).kernel(KEY, { verify: true });
    assert.equal(kernel.run({ a: filled(1), b: filled(2) })[0], 3);
    assert.notEqual(kernel.info.fallbackReason, null);
    assert.deepEqual(
      told.map((each) => each.stage),
      [stage],
    );
  });
}

test("a kernel that is right is handed out verified, and nothing is told", async (t) => {
  const told = toldTo(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const kernel = await (await open()).kernel(KEY, { verify: true });
  assert.deepEqual([kernel.info.fallbackReason, told.length], [null, 0]);
});

test("a deadline that several kernels missed together is told of none of them", async (t) => {
  const told: string[] = [];
  t.mock.method(globalThis, "fetch", async (url: URL) => {
    told.push(url.pathname);
    return new Response();
  });
  const zoo = new URL("http://zoo.test/");
  const failures = new Failures((report) => postReport(new URL("./v1/failures", zoo), report));
  const kernel = { workload: KEY, device_class: CLASS, artifact: "0".repeat(64) };
  failures.note(kernel, new SharedDeadline(10_000));
  assert.deepEqual([failures.reason(kernel.artifact), told], [null, []]);
  failures.note(kernel, new CompileDeadline(10_000));
  assert.match(failures.reason(kernel.artifact) ?? "", /did not compile this kernel within 10 s/);
  assert.deepEqual(told, ["/v1/failures"]);
});

/** Takes fifty reports at once and then five more whenever a second has passed, as a gateway. */
function busyZoo(t: TestContext): { readonly taken: string[]; readonly passSecond: () => void } {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 1;
  t.mock.method(performance, "now", () => now);
  const taken: string[] = [];
  let left = 50;
  t.mock.method(globalThis, "fetch", async (_url: URL, init?: RequestInit) => {
    if (left === 0) return new Response(null, { status: 429, headers: { "Retry-After": "1" } });
    left--;
    taken.push((JSON.parse(String(init?.body)) as FailureReport).artifact);
    return new Response(null, { status: 202 });
  });
  const passSecond = (): void => {
    now += 1000;
    left = 5;
    t.mock.timers.tick(1000);
  };
  return { taken, passSecond };
}

/** Lets what is ready go on, as `setImmediate` runs behind all of it. */
async function settled(t: TestContext): Promise<void> {
  for (let turn = 0; turn < 200; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(0);
  }
}

test("a page in which more kernels fail at once than a zoo takes tells of them all", async (t) => {
  const { taken, passSecond } = busyZoo(t);
  const url = new URL("http://zoo.test/v1/failures");
  const failures = new Failures((report) => postReport(url, report));
  const kernels = Array.from({ length: 80 }, (_, number) => `${number}`.padStart(64, "0"));
  for (const artifact of kernels) {
    failures.note({ workload: KEY, device_class: CLASS, artifact }, new CompileDeadline(10_000));
  }
  await settled(t);
  assert.equal(taken.length, 50);
  for (let second = 1; second <= 6; second++) {
    passSecond();
    await settled(t);
    assert.equal(taken.length, 50 + 5 * second);
  }
  assert.deepEqual([...taken].sort(), kernels);
});

test("reports that a zoo takes tomorrow, or not at all, hold up no others", async (t) => {
  const { taken } = busyZoo(t);
  const url = new URL("http://zoo.test/v1/failures");
  const answers = [
    () => new Response(null, { status: 429, headers: { "Retry-After": "3600" } }),
    () => new Response(null, { status: 403 }),
    () => Promise.reject(new TypeError("the zoo is away")),
  ];
  const zoo = globalThis.fetch;
  t.mock.method(globalThis, "fetch", async (asked: URL, init?: RequestInit) =>
    (answers.shift() ?? (() => zoo(asked, init)))(),
  );
  for (const artifact of ["a", "b", "c", "d"]) {
    const report = { workload: KEY, device_class: CLASS, artifact, stage: "run", detail: "" };
    postReport(url, report as FailureReport);
  }
  await settled(t);
  assert.deepEqual([taken, answers], [["d"], []]);
});

test("what the network or the page did wrong is told to nobody", async (t) => {
  const told = toldTo(t, manifestOf({ ...tinyKernel("add", ELEMENTS), sha256: "0".repeat(64) }));
  const kernel = await (await open()).kernel(KEY);
  assert.throws(() => kernel.run({ a: [1] }), /1 entries/);
  assert.equal(told.length, 0);
});

test("a set comes in one request, by workload", async (t) => {
  const asked = serve(t, { ...manifestOf(tinyKernel("add", ELEMENTS)), set: "my-model" });
  const kernels = await (await open()).set("my-model");
  assert.deepEqual([...kernels.keys()], [KEY]);
  assert.equal(asked[0], `/v1/zoo/my-model/${CLASS}`);
});

test("while the zoo is away the browser's copy of the manifest serves", async (t) => {
  const manifest = manifestOf(tinyKernel("add", ELEMENTS));
  t.mock.method(globalThis, "fetch", async (url: URL, init: RequestInit) => {
    if (url.pathname.startsWith("/v1/artifacts")) return new Response(bytesOf("add"));
    if (init.cache !== "force-cache") throw new TypeError("fetch failed");
    return Response.json(manifest);
  });
  assert.equal((await (await open()).kernel(KEY)).info.level, "exact");
});

test("a zoo that is away and was never asked is an error that says so", async (t) => {
  t.mock.method(globalThis, "fetch", async () => {
    throw new TypeError("fetch failed");
  });
  await assert.rejects((await open()).kernel(KEY), /No answer from http:\/\/zoo.test/);
});

test("an unknown workload is an error that says how to register it", async (t) => {
  serve(t, Response.json({ detail: "not registered" }, { status: 404 }));
  await assert.rejects((await open()).kernel("matmul:f32:m384k768n768"), (error) => {
    assert.equal((error as KernelZooError).stage, "manifest");
    assert.match((error as KernelZooError).message, /kernelzoo tune matmul 384x768x768/);
    return true;
  });
});

test("a workload that is not compiled yet is an error that says so", async (t) => {
  serve(t, { ...manifestOf(tinyKernel("add", ELEMENTS)), entries: [], missing: [KEY] });
  await assert.rejects((await open()).kernel(KEY), /no kernel of it has been compiled/);
});

test("inputs of another length, traps and use after disposal are errors", async (t) => {
  serve(t, manifestOf(tinyKernel("trap", ELEMENTS)));
  const kernel = await (await open()).kernel(KEY);
  assert.throws(() => kernel.run({ a: [1, 2] }), /2 entries/);
  assert.throws(() => kernel.run({ z: [1] } as object), /no such input/);
  assert.throws(() => kernel.run(), /trapped/);
  kernel.dispose();
  assert.throws(() => kernel.run(), /disposed/);
});

test("a page without threads runs a kernel in its own thread, and says so", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const zoo = await KernelZoo.open("http://zoo.test", { deviceClass: CLASS, threads: 2 });
  const kernel = await zoo.kernel(KEY);
  const ones = new Array(ELEMENTS).fill(1);
  assert.equal((await kernel.runAsync({ a: ones, b: ones }))[0], 2);
  assert.equal(kernel.info.threads, 1);
  assert.notEqual(kernel.info.singleThreadReason, null);
});

test("one thread needs no reason", async (t) => {
  serve(t, manifestOf(tinyKernel("add", ELEMENTS)));
  const { info } = await (await open()).kernel(KEY);
  assert.deepEqual([info.threads, info.singleThreadReason], [1, null]);
});

test("the command that registers a workload follows from its key", () => {
  assert.equal(
    registerCommand("batch_matmul:f32:b12m384k384n64"),
    "kernelzoo tune batch_matmul 12x384x384x64",
  );
  const constant = "matmul:f32:m1k2n3:constant=b";
  assert.equal(registerCommand(constant), `kernelzoo tune ${constant}`);
  const half = "matmul:f16:m1k2n3:constant=b";
  assert.equal(registerCommand(half), `kernelzoo tune ${half} --target webgpu`);
});

const FILES = buildSdk();

/** A part of what Terser parses, which its types do not have. */
interface ScriptScope {
  readonly globals: ReadonlyMap<string, unknown>;
  figure_out_scope(options: object): void;
}

test("SDK and engine are at most 16 kB gzip in one file, 30.5 kB with the runtime of models", async () => {
  const files = await FILES;
  const size = (text: string): number => gzipSync(text, { level: 9 }).length;
  const entry = files.get("sdk.js") ?? "";
  assert.ok(size(entry) <= 16_000, `${size(entry)} bytes`);
  assert.doesNotMatch(entry, /@compute/);
  assert.doesNotMatch(entry, /\b(from|import)\s*"/, "sdk.js needs no other file to start");
  const names = [...files.keys()].filter((name) => name.endsWith(".js"));
  assert.ok(names.every((name) => name === "sdk.js" || name.startsWith("chunks/")));
  const [name = ""] = names.filter((name) => name.startsWith("chunks/runtime-"));
  const runtime = files.get(name) ?? "";
  const imported = [...runtime.matchAll(/\bfrom\s*"([^"]+)"/g)].map(([, file]) => file);
  assert.deepEqual(imported, ["../sdk.js"], "the runtime needs no file that is asked for after it");
  const both = size(entry) + size(runtime);
  assert.ok(both <= 30_500, `${both} bytes`);
});

/** The texts of all workers of a table, by their roles and targets. */
async function textsOf(table: object, role = ""): Promise<[string, string][]> {
  const texts = Object.entries(table).map(async ([name, value]) => {
    if (typeof value !== "function") return textsOf(value, `${name} `);
    return [[role + name, (await value()).default]] as [string, string][];
  });
  return (await Promise.all(texts)).flat();
}

test("the texts of workers declare all that they use and no browser does", async () => {
  const browsers = /^(GPU|IDB|FileSystem)|^(Worker|indexedDB|navigator)$/;
  for (const [worker, text] of await textsOf(WORKERS)) {
    const format: object = { ast: true, code: false };
    const parsed = await minify(text, { compress: false, mangle: false, format });
    const script = (parsed as unknown as { ast: ScriptScope }).ast;
    script.figure_out_scope({});
    const unknown = [...script.globals.keys()].filter(
      (name) => !(name in globalThis || browsers.test(name)),
    );
    assert.deepEqual(unknown, [], worker);
  }
});

test("source maps hold the sources, by their paths in the repository", async () => {
  const files = await FILES;
  for (const [name, text] of files) {
    if (!name.endsWith(".map")) continue;
    const { sources, sourcesContent } = JSON.parse(text) as Record<string, readonly string[]>;
    assert.ok(
      sources?.every((path) => /^(\.\.\/)+src\/[\w/-]+\.ts/.test(path)),
      name,
    );
    assert.equal(sourcesContent?.length, sources?.length, name);
  }
});

test("a bundler that cannot split makes at most 127.5 kB gzip of the SDK", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "kernelzoo-"));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, "chunks"));
  for (const [name, text] of await FILES) writeFileSync(join(folder, name), text);
  const { outputFiles } = await build({
    entryPoints: [join(folder, "sdk.js")],
    bundle: true,
    format: "esm",
    minify: true,
    write: false,
  });
  const bytes = gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length;
  assert.ok(bytes <= 127_500, `${bytes} bytes`);
});
