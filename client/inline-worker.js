/**
 * `import source from "./worker.js?inlined"` is that worker, bundled, as text. A worker's address
 * must be of the page's own origin, and the SDK may come from any: so it carries its worker along.
 *
 * `import … from "./module.js?own"` is a copy of a small module for its importer alone: two files that
 * shared it would need a third one.
 */
import { dirname, resolve } from "node:path";
import { build } from "esbuild";
import { minify } from "terser";

/**
 * No getter of ours does anything but answer, and no function is constructed that is no class.
 * @type {import("terser").MinifyOptions}
 */
export const TERSER = {
  module: true,
  ecma: 2020,
  compress: { passes: 4, pure_getters: true, unsafe_arrows: true },
};

/** @type {import("esbuild").Plugin} */
export const inlineWorker = {
  name: "inline-worker",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\?inlined$/ }, ({ path, importer }) => ({
      path: resolve(dirname(importer), path.replace(/\.js\?inlined$/, ".ts")),
      namespace: "inlined",
    }));
    onResolve({ filter: /\?own$/ }, ({ path, importer }) => ({
      path: resolve(dirname(importer), path.replace(/\.js\?own$/, ".ts")),
      suffix: `?${importer}`,
    }));
    onLoad({ filter: /.*/, namespace: "inlined" }, async ({ path }) => {
      const { outputFiles } = await build({
        entryPoints: [path],
        bundle: true,
        format: "iife",
        target: "es2022",
        minify: true,
        write: false,
      });
      const { code = "" } = await minify(outputFiles[0]?.text ?? "", TERSER);
      return { contents: code, loader: "text" };
    });
  },
};
