/** Zoos that are no zoos: whatever answers, or does not, a page gets a KernelZooError in time. */
import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { KernelZoo, KernelZooError, type Stage } from "../src/sdk/index.js";
import { bytesOf, tinyKernel } from "./kernels.js";
import { CLASS, ELEMENTS, filled, KEY, manifestOf } from "./zoo.js";

const TIMEOUT_MS = 300;
const HTML = "<!doctype html><title>Not found</title>";
const BUNDLE = { bundle: 1, set: KEY, manifests: [{ device_classes: [CLASS], url: "/m.json" }] };

/** A server on this machine, until the test ends. */
async function listening(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Answers every path that ends as one of `bodies` does, and artifacts; else 404 in HTML. */
const serving =
  (bodies: Readonly<Record<string, string>>, asked: string[] = []): RequestListener =>
  ({ url = "" }, response) => {
    asked.push(decodeURIComponent(url));
    const [, body] = Object.entries(bodies).find(([end]) => asked.at(-1)?.endsWith(end)) ?? [];
    if (body !== undefined) response.end(body);
    else if (url.endsWith(".wasm")) response.end(bytesOf("add"));
    else response.writeHead(404, { "Content-Type": "text/html" }).end(HTML);
  };

const manifest = () => JSON.stringify(manifestOf(tinyKernel("add", ELEMENTS)));

const open = (url: string | URL, options = {}): Promise<KernelZoo> =>
  KernelZoo.open(url, { deviceClass: CLASS, timeoutMs: TIMEOUT_MS, ...options });

async function rejects(work: Promise<unknown>, stage: Stage, words: RegExp): Promise<void> {
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof KernelZooError, String(error));
    assert.match(error.message, words);
    assert.equal(error.stage, stage);
    return true;
  });
}

const HANGING: Readonly<Record<string, RequestListener>> = {
  "that never answers": () => undefined,
  "that stops within an answer": (_, response) => {
    response.writeHead(200, { "Content-Length": "1000" }).write('{"manifest":');
  },
};

for (const [name, listener] of Object.entries(HANGING)) {
  test(`a gateway ${name} is a network error after the time that the page allows`, async (t) => {
    const zoo = await open(await listening(t, listener));
    await rejects(zoo.kernel(KEY), "network", /No answer from http:\/\/127\.0\.0\.1/);
  });
}

test("a gateway that stops within a refusal is no zoo", async (t) => {
  const url = await listening(t, (_, response) => {
    response.writeHead(404, { "Content-Length": "1000" }).write("<");
  });
  await rejects((await open(url)).kernel(KEY), "manifest", /answered 404/);
});

test("a request takes at most ten seconds unless the page says otherwise", async (t) => {
  const limits: number[] = [];
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, "timeout", (ms: number) => {
    limits.push(ms);
    return timeout(ms);
  });
  const zoo = await KernelZoo.open(await listening(t, serving({ [CLASS]: manifest() })), {
    deviceClass: CLASS,
  });
  await zoo.kernel(KEY);
  assert.deepEqual(new Set(limits), new Set([10_000]));
});

test("a kernel that never arrives is a network error after the time that the page allows", async (t) => {
  const url = await listening(t, (request, response) => {
    if (!request.url?.endsWith(".wasm")) response.end(manifest());
  });
  await rejects((await open(url)).kernel(KEY), "network", /No answer/);
});

test("a kernel whose connection breaks within it is a network error", async (t) => {
  const url = await listening(t, (request, response) => {
    if (!request.url?.endsWith(".wasm")) response.end(manifest());
    else
      response
        .writeHead(200, { "Content-Length": "1000" })
        .write("\0asm", () => response.destroy());
  });
  await rejects((await open(url)).kernel(KEY), "network", /No answer/);
});

test("a page that gives up gets its own reason", async (t) => {
  const controller = new AbortController();
  const zoo = await open(await listening(t, () => undefined), { signal: controller.signal });
  const reason = new Error("the visitor went elsewhere");
  const asked = zoo.kernel(KEY);
  controller.abort(reason);
  await assert.rejects(asked, (error) => error === reason);
});

test("HTML in place of an answer is not called a workload that nobody registered", async (t) => {
  const url = await listening(t, serving({}));
  const zoo = await open(url);
  await rejects(zoo.kernel(KEY), "manifest", /answered 404, which is no zoo's answer/);
  await rejects(zoo.set("my-model"), "manifest", /Is the address right\?/);
  await rejects((await open(`${url}/bundle.json`)).kernel(KEY), "manifest", /answered 404/);
});

test("a kernel that is not there any more is an error that says so", async (t) => {
  const url = await listening(t, (request, response) => {
    if (!request.url?.endsWith(".wasm")) response.end(manifest());
    else response.writeHead(404).end(HTML);
  });
  await rejects((await open(url)).kernel(KEY), "artifact", /answered 404/);
});

const GARBAGE = [
  "",
  "null",
  "[]",
  "7",
  '"text"',
  "{}",
  HTML,
  "\0\xff",
  '{"entries":[],"missing":7}',
];

for (const body of GARBAGE) {
  test(`${JSON.stringify(body)} in place of a manifest or a bundle is a manifest error`, async (t) => {
    const url = await listening(t, serving({ "": body }));
    await rejects((await open(url)).kernel(KEY), "manifest", /http:\/\/127/);
    await rejects((await open(url)).set(KEY), "manifest", /http:\/\/127/);
    await rejects((await open(`${url}/bundle.json`)).kernel(KEY), "manifest", /http:\/\/127/);
  });
}

/** Every place in a document, as the names that lead there. */
function places(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== "object" || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([key, each]) => places(each, [...path, key]))];
}

function replaced(document: string, path: readonly string[], value: unknown): string {
  const root = { document: JSON.parse(document) as unknown };
  let at = root as unknown as Record<string, unknown>;
  const names = ["document", ...path];
  for (const name of names.slice(0, -1)) at = at[name] as Record<string, unknown>;
  at[names.at(-1) as string] = value;
  return JSON.stringify(root.document);
}

test("a manifest with garbage at any one place runs, or is a KernelZooError", async (t) => {
  const bodies = { [CLASS]: "" };
  const url = await listening(t, serving(bodies));
  let refused = 0;
  for (const path of places(JSON.parse(manifest()))) {
    for (const value of [null, -1, "garbage", [null]]) {
      bodies[CLASS] = replaced(manifest(), path, value);
      try {
        const kernel = await (await open(url)).kernel(KEY);
        kernel.dispose();
      } catch (error) {
        refused += 1;
        assert.ok(error instanceof KernelZooError, `${path.join(".")} = ${JSON.stringify(value)}`);
      }
    }
  }
  assert.ok(refused > 50, `${refused}`);
});

test("a zoo may be behind a path, with or without a slash at its end", async (t) => {
  for (const path of ["/zoo", "/deep/zoo/"]) {
    const asked: string[] = [];
    const url = await listening(t, serving({ [CLASS]: manifest() }, asked));
    const kernel = await (await open(`${url}${path}`)).kernel(KEY);
    assert.equal(kernel.run({ a: filled(2), b: filled(3) })[0], 5);
    const base = path.replace(/\/$/, "");
    assert.equal(asked[0], `${base}/v1/zoo/${KEY}/${CLASS}`);
    assert.equal(asked[1], `${base}${tinyKernel("add", ELEMENTS).url}`);
    assert.equal(new Set(asked).size, asked.length);
  }
});

test("a bundle's or a gateway's address may be relative to the page", async (t) => {
  const asked: string[] = [];
  const bodies = {
    "bundle.json": JSON.stringify(BUNDLE),
    "m.json": manifest(),
    [CLASS]: manifest(),
  };
  const url = await listening(t, serving(bodies, asked));
  Object.assign(globalThis, { document: { baseURI: `${url}/shop/index.html` } });
  t.after(() => Reflect.deleteProperty(globalThis, "document"));
  await (await open("kernels/bundle.json")).kernel(KEY);
  assert.deepEqual(asked.slice(0, 2), ["/shop/kernels/bundle.json", "/shop/kernels/m.json"]);
  await (await open("/zoo")).kernel(KEY);
  assert.ok(asked.includes(`/zoo/v1/zoo/${KEY}/${CLASS}`));
});

test("an address that is none is an error that shows one", async () => {
  await rejects(open("zoo.example"), "network", /write https:\/\/zoo\.example/);
  await rejects(open("http://"), "network", /is no URL/);
});
