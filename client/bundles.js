/** What esbuild makes of the client: shared by the build and by the test of its size. */
import { inlineWorker } from "./inline-worker.js";

/** @type {import("esbuild").BuildOptions} */
export const bundles = {
  entryPoints: {
    sdk: "src/sdk/index.ts",
    "agent-page": "src/agent/page.ts",
    "agent-worker": "src/agent/worker.ts",
    console: "src/console/page.ts",
  },
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
