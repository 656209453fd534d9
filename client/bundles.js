/** What esbuild makes of the client: shared by the build and by the test of its size. */
import { inlineWorker } from "./inline-worker.js";

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
 * One file, and the probes of GPUs beside it for the one visit that runs them.
 * @type {import("esbuild").BuildOptions}
 */
export const sdk = { ...shared, entryPoints: { sdk: "src/sdk/index.ts" }, splitting: true };

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
