import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { type TestContext, test } from "node:test";
import { type Bundle, chooseOffer } from "../src/sdk/address.js";
import { KernelZoo, type KernelZooError } from "../src/sdk/index.js";
import { bytesOf, tinyKernel } from "./kernels.js";

const N = 8;
const KEY = `add:f32:n${N}`;
const CLASS = "0123456789abcdef:r1-0:wasm+simd128";

interface Pair {
  readonly pin: string;
  readonly seal: (document: object) => string;
}

/** Makes keys that sign as `kernelzoo/signing.py` does, by Node's own Ed25519. */
function pair(): Pair {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const pin = publicKey.export({ format: "jwk" }).x as string;
  const seal = (document: object): string => {
    const text = JSON.stringify(document);
    const signature = sign(null, Buffer.from(text), privateKey).toString("base64url");
    return `${text.slice(0, -1)},"signatures":[{"key":"${pin}","signature":"${signature}"}]}`;
  };
  return { pin, seal };
}

const OLD = pair();
const NEW = pair();

const served = (name: "add" | "subtract") => ({
  tolerance: 1e-6,
  level: "default",
  kernel: tinyKernel(name, N),
  fallback: tinyKernel(name, N),
  state: null,
  version: null,
  evidence: null,
  timing: null,
});

const manifestOf = (set = KEY, name: "add" | "subtract" = "add") => ({
  manifest: 1,
  set,
  device_classes: [CLASS],
  entries: [
    {
      workload: KEY,
      flops: N,
      wasm: served(name),
      webgpu: null,
      advice: { target: "wasm", basis: "none" },
    },
  ],
  missing: [],
  issued_at: new Date().toISOString(),
  serial: 1,
});

const deniedOf = (...artifacts: string[]) => ({
  denied: 1,
  device_class: CLASS,
  artifacts,
  issued_at: new Date().toISOString(),
  serial: 1,
});

const DENIED = `/v1/denied/${encodeURIComponent(CLASS)}`;

/** Says that nothing is denied, for pages that pin either key. */
const nothingDenied = (): Response => new Response(both(deniedOf()));

/** Signed by both keys. */
function both(document: object): string {
  const signatures = [OLD, NEW].map(({ seal }) => JSON.parse(seal(document)).signatures[0]);
  return `${JSON.stringify(document).slice(0, -1)},"signatures":${JSON.stringify(signatures)}}`;
}

/** Answers each path with its text, and artifacts with their bytes wherever they lie. */
function serve(t: TestContext, texts: Readonly<Record<string, string>>): string[] {
  const asked: string[] = [];
  t.mock.method(globalThis, "fetch", async ({ pathname }: URL) => {
    asked.push(pathname);
    if (pathname.startsWith("/v1/denied/") && texts[DENIED] === undefined) return nothingDenied();
    const text = texts[pathname];
    if (text !== undefined) return new Response(text);
    return pathname.endsWith(".wasm")
      ? new Response(bytesOf("add"))
      : new Response("", { status: 404 });
  });
  return asked;
}

const PATH = `/v1/zoo/${KEY}/${CLASS}`;

const open = (keys?: readonly string[], url = "http://zoo.test"): Promise<KernelZoo> =>
  KernelZoo.open(url, { deviceClass: CLASS, ...(keys === undefined ? {} : { keys }) });

const refused = (words: RegExp) => (error: unknown) => {
  assert.equal((error as KernelZooError).stage, "signature");
  assert.match((error as KernelZooError).message, words);
  return true;
};

test("a manifest that a pinned key has signed is read, the old one or the new", async (t) => {
  serve(t, { [PATH]: NEW.seal(manifestOf()) });
  const kernel = await (await open([OLD.pin, NEW.pin])).kernel(KEY);
  assert.equal(kernel.run({ a: new Array(N).fill(2), b: new Array(N).fill(3) })[0], 5);
});

test("a manifest that only others have signed is refused, with their key", async (t) => {
  serve(t, { [PATH]: OLD.seal(manifestOf()) });
  await assert.rejects((await open([NEW.pin])).kernel(KEY), refused(new RegExp(OLD.pin)));
  await assert.rejects((await open([])).kernel(KEY), refused(/No valid signature/));
});

test("a manifest that was changed after it was signed is refused at every byte", async (t) => {
  const sealed = OLD.seal(manifestOf());
  const texts: Record<string, string> = {};
  serve(t, texts);
  for (let at = 0; at < sealed.length - 4; at += 97) {
    const other = String.fromCharCode(sealed.charCodeAt(at) ^ 1);
    texts[PATH] = sealed.slice(0, at) + other + sealed.slice(at + 1);
    await assert.rejects((await open([OLD.pin])).kernel(KEY), `byte ${at}`);
  }
});

test("members behind the signatures are not read, whatever their names", async (t) => {
  const { entries } = manifestOf(KEY, "subtract");
  const more = `,"entries":${JSON.stringify(entries)}}`;
  serve(t, { [PATH]: `${OLD.seal(manifestOf()).slice(0, -1)}${more}` });
  const kernel = await (await open([OLD.pin])).kernel(KEY);
  assert.equal(kernel.info.sha256, tinyKernel("add", N).sha256);
});

test("a signed manifest of another set or class is refused", async (t) => {
  const texts = { [PATH]: OLD.seal(manifestOf("another")) };
  serve(t, texts);
  await assert.rejects((await open([OLD.pin])).kernel(KEY), refused(/of another on .* was sent/));
  const other = `${CLASS}+relaxed-simd`;
  texts[PATH] = OLD.seal({ ...manifestOf(), device_classes: [other] });
  await assert.rejects((await open([OLD.pin])).kernel(KEY), refused(/relaxed-simd was sent/));
});

const DAY_MS = 86_400_000;
const ago = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString();

test("a manifest that was signed more than a week ago is refused, or after what the page says", async (t) => {
  const texts = { [PATH]: "" };
  serve(t, texts);
  const kernelOf = async (issued_at: unknown, maxAgeMs?: number) => {
    texts[PATH] = OLD.seal({ ...manifestOf(), issued_at });
    const options = maxAgeMs === undefined ? {} : { maxAgeMs };
    const zoo = await KernelZoo.open("http://zoo.test", {
      ...{ deviceClass: CLASS, keys: [OLD.pin] },
      ...options,
    });
    return zoo.kernel(KEY);
  };
  assert.equal((await kernelOf(ago(6.9))).info.level, "default");
  await assert.rejects(kernelOf(ago(7.1)), refused(/more than 7 days ago/));
  await assert.rejects(kernelOf(ago(1), DAY_MS / 2), refused(/more than 0.5 days ago/));
  // A clock that is behind must not lock its visitor out.
  assert.equal((await kernelOf(ago(-30))).info.level, "default");
  for (const none of [undefined, "yesterday"]) {
    await assert.rejects(kernelOf(none), refused(/or the clock, is wrong/));
  }
});

test("a manifest of before one that this browser saw is asked for again, past caches, and refused", async (t) => {
  const texts: Record<string, string> = {};
  const asked: string[] = [];
  let current = 7;
  t.mock.method(globalThis, "fetch", async (url: URL) => {
    if (url.pathname.endsWith(".wasm")) return new Response(bytesOf("add"));
    if (url.pathname === DENIED) return nothingDenied();
    asked.push(url.search);
    const serial = url.search === "" ? Number(texts.cached) : current;
    return new Response(OLD.seal({ ...manifestOf(), serial }));
  });
  const kernel = async () => (await open([OLD.pin], "http://growing.test")).kernel(KEY);
  texts.cached = "7";
  await kernel();
  texts.cached = "5";
  await kernel();
  assert.deepEqual(asked, ["", "", "?after=7"]);
  current = 6;
  await assert.rejects(kernel(), refused(/of before one that this browser saw: 6 < 7/));
  texts.cached = "8";
  await kernel();
  // Another zoo has serials of its own.
  texts.cached = "1";
  await (await open([OLD.pin], "http://another.test")).kernel(KEY);
});

/** Attack: a fresh profile is handed a signed manifest of before a kernel of it was denied. */
test("a manifest that names a kernel that was denied since is asked for again, and refused", async (t) => {
  const bad = tinyKernel("add", N).sha256;
  const texts: Record<string, string> = { [PATH]: OLD.seal(manifestOf()) };
  const asked = serve(t, texts);
  const kernel = async (zoo: string) => (await open([OLD.pin], `http://${zoo}.test`)).kernel(KEY);
  texts[DENIED] = OLD.seal(deniedOf(tinyKernel("subtract", N).sha256));
  assert.equal((await kernel("fresh")).info.sha256, bad);
  texts[DENIED] = OLD.seal({ ...deniedOf(bad), serial: 9 });
  asked.length = 0;
  await assert.rejects(kernel("fresh"), refused(/which the zoo has denied since/));
  assert.deepEqual(asked, [DENIED, PATH, PATH]);
  // What was denied is remembered, whoever holds the list back.
  delete texts[DENIED];
  t.mock.method(globalThis, "fetch", async ({ pathname }: URL) =>
    pathname === DENIED ? new Response("", { status: 404 }) : new Response(texts[PATH]),
  );
  await assert.rejects(kernel("fresh"), refused(/which the zoo has denied since/));
  await assert.rejects(kernel("unseen"), refused(/list of denied kernels, .* did not come/));
});

test("a list of denied kernels that is old, of others or signed by others is refused", async (t) => {
  const texts: Record<string, string> = { [PATH]: OLD.seal(manifestOf()) };
  serve(t, texts);
  const kernel = async () => (await open([OLD.pin], "http://lists.test")).kernel(KEY);
  texts[DENIED] = OLD.seal({ ...deniedOf(), issued_at: ago(1.1) });
  await assert.rejects(kernel(), refused(/list of denied kernels is too old/));
  texts[DENIED] = OLD.seal({ ...deniedOf(), device_class: `${CLASS}+relaxed-simd` });
  await assert.rejects(kernel(), refused(/A list of what is denied to .* was sent/));
  texts[DENIED] = NEW.seal(deniedOf());
  await assert.rejects(kernel(), refused(/No valid signature/));
});

test("the first manifest that a browser sees of a zoo may be two days old", async (t) => {
  const texts: Record<string, string> = {};
  serve(t, texts);
  const kernel = async (days: number, zoo: string) => {
    texts[PATH] = OLD.seal({ ...manifestOf(), issued_at: ago(days) });
    return (await open([OLD.pin], `http://${zoo}.test`)).kernel(KEY);
  };
  await assert.rejects(kernel(2.1, "never-seen"), refused(/more than 2 days ago/));
  assert.equal((await kernel(1.9, "seen")).info.level, "default");
  assert.equal((await kernel(6, "seen")).info.level, "default");
});

test("without pins a zoo without a key serves, with pins it is refused", async (t) => {
  serve(t, { [PATH]: JSON.stringify(manifestOf()) });
  assert.equal((await (await open()).kernel(KEY)).info.level, "default");
  await assert.rejects((await open([OLD.pin])).kernel(KEY), refused(/not signed/));
});

test("where the platform cannot check, pinned pages run nothing and are told why", async (t) => {
  serve(t, { [PATH]: OLD.seal(manifestOf()) });
  t.mock.method(crypto.subtle, "importKey", async () => {
    throw new DOMException("Unrecognized name.", "NotSupportedError");
  });
  await assert.rejects((await open([OLD.pin])).kernel(KEY), refused(/cannot check Ed25519/));
  t.mock.getter(globalThis, "crypto", () => ({}));
  await assert.rejects((await open([OLD.pin])).kernel(KEY), refused(/secure context/));
});

test("a pin that is no key is refused before anything is asked for", async () => {
  await assert.rejects(open(["not a key"]), refused(/not a key is no key/));
  const unset = [undefined] as unknown as string[];
  await assert.rejects(open(unset), refused(/undefined is no key/));
});

const W = (id: string, features: string) => `${id.padEnd(16, id)}:r1-0:wasm${features}`;
const G = (id: string, features = "") => `${id.padEnd(16, id)}:r101-0:webgpu${features}`;

const bundleOf = (...manifests: string[][]): Bundle => ({
  bundle: 1,
  set: "model",
  manifests: manifests.map((device_classes, i) => ({ device_classes, url: `/${i}` })),
});

test("a bundle has the device's own manifest, else one whose features the device has", () => {
  const any = [
    [W("0", "+relaxed-simd+simd128"), G("0")],
    [W("0", "+relaxed-simd+simd128")],
    [W("0", "+simd128"), G("0")],
    [W("0", "+simd128")],
  ];
  const bundle = bundleOf(...any, [W("a", "+simd128"), G("b")], [W("a", "+simd128")]);
  const chosen = (...own: string[]) => chooseOffer(bundle.manifests, own)?.url;
  assert.equal(chosen(W("a", "+simd128")), "/5");
  assert.equal(chosen(W("a", "+simd128"), G("b")), "/4");
  assert.equal(chosen(W("c", "+relaxed-simd+simd128")), "/1");
  assert.equal(chosen(W("c", "+simd128"), G("c", "+subgroups")), "/2");
  assert.equal(chosen(W("c", "+simd128")), "/3");
  assert.equal(chosen(W("c", "")), undefined);
});

const BUNDLE = "http://static.test/deep/bundle.json";

test("a bundle in any folder serves a set and its kernels from two requests", async (t) => {
  const index = {
    bundle: 1,
    set: "model",
    manifests: [{ device_classes: [CLASS], url: "/m.json" }],
  };
  const asked = serve(t, {
    "/deep/bundle.json": JSON.stringify(index),
    "/deep/m.json": OLD.seal(manifestOf("model")),
  });
  const zoo = await open([OLD.pin], BUNDLE);
  const kernel = await zoo.kernel(KEY);
  assert.equal(kernel.run({ a: new Array(N).fill(2), b: new Array(N).fill(3) })[0], 5);
  assert.deepEqual([...(await zoo.set("model")).keys()], [KEY]);
  assert.equal(asked.filter((path) => path.endsWith(".json")).length, 2);
  assert.ok(asked.includes(`/deep${tinyKernel("add", N).url}`));
  await assert.rejects(zoo.set("other"), /kernels of model, not of other/);
  await assert.rejects(zoo.kernel("matmul:f32:m1k2n3"), /is not in model/);
});

test("a bundle may be old, unless the page says how old", async (t) => {
  serve(t, {
    "/deep/bundle.json": JSON.stringify(bundleOf([CLASS])).replace("/0", "/m.json"),
    "/deep/m.json": OLD.seal({ ...manifestOf("model"), issued_at: ago(300) }),
  });
  assert.equal((await (await open([OLD.pin], BUNDLE)).kernel(KEY)).info.level, "default");
  const aged = { deviceClass: CLASS, keys: [OLD.pin], maxAgeMs: 200 * DAY_MS };
  const zoo = await KernelZoo.open(BUNDLE, aged);
  await assert.rejects(zoo.kernel(KEY), refused(/more than 200 days/));
});

test("a page that pins a bundle reads it and no other, although the zoo signed that too", async (t) => {
  const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
  const bundled = (name: "add" | "subtract") => {
    const manifest = OLD.seal(manifestOf("model", name));
    const path = `/${sha256(manifest)}.json`;
    const manifests = [{ device_classes: [CLASS], url: path }];
    const index = JSON.stringify({ bundle: 1, set: "model", manifests });
    return { index, path: `/deep${path}`, manifest };
  };
  const [own, other] = [bundled("add"), bundled("subtract")];
  const texts = { "/deep/bundle.json": own.index, [own.path]: own.manifest };
  serve(t, texts);
  const kernel = async (bundle = sha256(own.index)) => {
    const zoo = await KernelZoo.open(BUNDLE, { deviceClass: CLASS, bundle });
    return zoo.kernel(KEY);
  };
  assert.equal((await kernel()).info.level, "default");
  await assert.rejects(kernel("0".repeat(64)), refused(/another bundle than this page pins/));
  texts[own.path] = other.manifest;
  await assert.rejects(kernel(), refused(/is not what its name says/));
  texts["/deep/bundle.json"] = other.index;
  await assert.rejects(kernel(), refused(/another bundle than this page pins/));
  const gateway = KernelZoo.open("http://zoo.test", { deviceClass: CLASS, bundle: "0".repeat(64) });
  await assert.rejects(gateway, refused(/is no bundle\.json/));
});

test("a host that answers with a page of its own is no bundle", async (t) => {
  serve(t, { "/deep/bundle.json": "<!doctype html>" });
  await assert.rejects((await open([OLD.pin], BUNDLE)).kernel(KEY), /is not a zoo/);
});
