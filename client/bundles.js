/** What becomes of the client: shared by the build and by the test of its size. */
import { resolve } from "node:path";
import { rolldown } from "rolldown";
import { minify } from "terser";
import { inlineWorker, TERSER, TRANSFORM } from "./inline-worker.js";

/** Terser makes 5 percent less of a file than Rolldown does. @type {import("rolldown").Plugin} */
const terser = {
  name: "terser",
  async renderChunk(text) {
    const { code = "", map } = await minify(text, { ...TERSER, sourceMap: true });
    return { code, map: String(map) };
  },
};

/**
 * Each module is in the first file of those that a page loads in this order: what other chunks share
 * with one of them they import from there, and it needs none that is asked for after it.
 * @param {Record<string, string>} entries
 */
function inOrder(entries) {
  const layers = Object.entries(entries).map(([name, entry]) => ({
    name,
    modules: new Set([resolve(entry)]),
  }));
  /** @type {import("rolldown").Plugin} */
  const plugin = {
    name: "in-order",
    buildEnd() {
      for (const { modules } of layers)
        for (const id of modules)
          for (const imported of this.getModuleInfo(id)?.importedIds ?? []) modules.add(imported);
    },
  };
  const groups = layers.map(({ name, modules }) => ({
    name,
    test: (/** @type {string} */ id) => modules.has(id),
  }));
  return { plugin, codeSplitting: { groups, includeDependenciesRecursively: false } };
}

/**
 * The files of a bundle as texts by name, and their maps, which hold the sources.
 * @param {Record<string, string>} input
 * @param {import("rolldown").OutputOptions} options
 * @param {import("rolldown").Plugin[]} plugins
 * @param {string[]} external
 * @returns {Promise<Map<string, string>>}
 */
async function bundled(input, options, plugins = [], external = []) {
  const bundle = await rolldown({
    input,
    external,
    plugins: [inlineWorker, terser, ...plugins],
    transform: TRANSFORM,
    // A chunk imports what it shares with the entry from there: one file is all that a page loads.
    preserveEntrySignatures: "allow-extension",
  });
  const { output } = await bundle.generate({
    format: "esm",
    minify: true,
    comments: false,
    sourcemap: true,
    entryFileNames: "[name].js",
    // Six of these tell as much apart as eight digits of base 16, in fewer bytes.
    hashCharacters: "base36",
    sanitizeFileName: (name) => name.replace("\0part:", "worker-"),
    ...options,
  });
  return new Map(
    output.map((file) => [file.fileName, file.type === "chunk" ? file.code : String(file.source)]),
  );
}

const SDK = "src/sdk/index.ts";
const RUNTIME = "src/model/runtime.ts";

/**
 * The runtime is an entry as well: its exports keep their names, so that nothing is put together for those
 * who import it. Workers differ in their hashes alone, as all of them are named in the SDK.
 * @param {string} sdkName
 * @param {string} chunkName
 */
function buildSdkAt(sdkName, chunkName) {
  const { plugin, codeSplitting } = inOrder({ sdk: SDK, runtime: RUNTIME });
  /** @param {{ name: string }} chunk */
  const chunkFileNames = ({ name }) =>
    chunkName.replace("[name]", name.replace(/^(model-|decoder-)?worker(-text)?$/, "worker"));
  /** @param {{ name: string }} entry */
  const entryFileNames = (entry) => (entry.name === "sdk" ? sdkName : chunkFileNames(entry));
  const names = { entryFileNames, chunkFileNames };
  return bundled({ sdk: SDK, runtime: RUNTIME }, { ...names, codeSplitting }, [plugin]);
}

/**
 * The SDK: `sdk.js`, and in `chunks/` what it loads when a page needs it.
 * @returns {Promise<Map<string, string>>}
 */
export const buildSdk = () => buildSdkAt("sdk.js", "chunks/[name]-[hash:6].js");

/**
 * The SDK at a name that never means other bytes. Its chunks are its own, as they import it by name.
 * @returns {Promise<Map<string, string>>}
 */
export const buildPinnedSdk = () => buildSdkAt("[name]-[hash:12].js", "pinned/[name]-[hash:6].js");

/**
 * What a page with a language model takes beside the SDK, which it shares nothing with but types.
 * @returns {Promise<Map<string, string>>}
 */
export function buildChat() {
  return bundled({ chat: "src/chat/index.ts" }, { codeSplitting: false });
}

const OWN_SDK = "./sdk.js";

/**
 * Imports the SDK from the file beside, so that a page has one. @type {import("rolldown").Plugin}
 */
const sdkBeside = {
  name: "sdk-beside",
  resolveId: (id) => (id.endsWith("/sdk/index.js") ? { id: OWN_SDK, external: "absolute" } : null),
};

/**
 * The interface of onnxruntime-web, on the SDK and on the package that has its tensors.
 * @returns {Promise<Map<string, string>>}
 */
export function buildOrt() {
  return bundled(
    { ort: "src/ort/index.ts" },
    { codeSplitting: false },
    [sdkBeside],
    ["onnxruntime-common"],
  );
}

const PAGES = {
  "agent-page": "src/agent/page.ts",
  "agent-worker": "src/agent/worker.ts",
  console: "src/console/page.ts",
};

/**
 * The scripts of the gateway's pages, one file each.
 * @returns {Promise<Map<string, string>>}
 */
export async function buildPages() {
  const scripts = Object.entries(PAGES).map(([name, file]) =>
    bundled({ [name]: file }, { codeSplitting: false }),
  );
  return new Map((await Promise.all(scripts)).flatMap((files) => [...files]));
}

/**
 * The style sheet of the gateway's pages: Rolldown bundles no CSS.
 * @type {import("esbuild").BuildOptions}
 */
export const style = {
  entryPoints: { style: "src/style/style.css" },
  outdir: "dist",
  bundle: true,
  minify: true,
  sourcemap: true,
  logLevel: "warning",
};

export const CHAT_EXAMPLE = "../examples/chat";

/**
 * The example that is an application with a bundler, on the package as an application gets it.
 * @type {import("esbuild").BuildOptions}
 */
export const chatExample = {
  entryPoints: { chat: `${CHAT_EXAMPLE}/chat.ts` },
  outdir: `${CHAT_EXAMPLE}/dist`,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  sourcemap: true,
  sourcesContent: false,
  legalComments: "none",
  logLevel: "warning",
  splitting: true,
  alias: { kernelzoo: "./dist/sdk.js", "kernelzoo/chat": "./dist/chat.js" },
  tsconfigRaw: {},
  nodePaths: ["node_modules"],
};

/**
 * One script of a page with parts of the client.
 * @param {string} input
 * @param {string} file
 */
export async function writePageScript(input, file) {
  const bundle = await rolldown({ input, plugins: [inlineWorker], platform: "browser" });
  await bundle.write({ file, format: "esm", codeSplitting: false });
}
