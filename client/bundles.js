/** What becomes of the client: shared by the build and by the test of its size. */
import { basename } from "node:path";
import { build } from "esbuild";
import { minify } from "terser";
import { inlineWorker, TERSER } from "./inline-worker.js";

/** @type {import("esbuild").BuildOptions} */
const shared = {
  outdir: "dist",
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  sourcemap: true,
  sourcesContent: false,
  legalComments: "none",
  logLevel: "warning",
  plugins: [inlineWorker],
};

/**
 * The SDK as the texts of files by name: `sdk.js`, the probes of GPUs beside it for the one visit that
 * runs them, and their maps. Terser makes 5 percent less of it than esbuild does.
 * @returns {Promise<Map<string, string>>}
 */
export function buildSdk() {
  return minified({ sdk: "src/sdk/index.ts" }, true);
}

/**
 * What a page with a language model takes beside the SDK, which it shares nothing with but types.
 * @returns {Promise<Map<string, string>>}
 */
export function buildChat() {
  return minified({ chat: "src/chat/index.ts" }, false);
}

/** @param {Record<string, string>} entryPoints @param {boolean} splitting */
async function minified(entryPoints, splitting) {
  const { outputFiles } = await build({ ...shared, entryPoints, splitting, write: false });
  const texts = new Map(outputFiles.map(({ path, text }) => [basename(path), text]));
  for (const name of [...texts.keys()].filter((each) => each.endsWith(".js"))) {
    const { code = "", map } = await minify(texts.get(name) ?? "", {
      ...TERSER,
      sourceMap: { content: texts.get(`${name}.map`) ?? "", url: `${name}.map` },
    });
    texts.set(name, code).set(`${name}.map`, String(map));
  }
  return texts;
}

/**
 * One file each.
 * @type {import("esbuild").BuildOptions}
 */
export const pages = {
  ...shared,
  entryPoints: {
    "agent-page": "src/agent/page.ts",
    "agent-worker": "src/agent/worker.ts",
    console: "src/console/page.ts",
    style: "src/style/style.css",
  },
};

export const CHAT_EXAMPLE = "../examples/chat";

/**
 * The example that is an application with a bundler, on the package as an application gets it.
 * @type {import("esbuild").BuildOptions}
 */
export const chatExample = {
  ...shared,
  entryPoints: { chat: `${CHAT_EXAMPLE}/chat.ts` },
  outdir: `${CHAT_EXAMPLE}/dist`,
  splitting: true,
  alias: { kernelzoo: "./dist/sdk.js", "kernelzoo/chat": "./dist/chat.js" },
  // Chunks of dist/ import others for the order in which they run, which has no effect here.
  logOverride: { "ignored-bare-import": "silent" },
  tsconfigRaw: {},
  nodePaths: ["node_modules"],
};
