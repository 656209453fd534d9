/**
 * `import source from "./worker.js?inlined"` is that worker, bundled, as text. A worker's address
 * must be of the page's own origin, and the SDK may come from any: so it carries its worker along.
 */
import { dirname, resolve } from "node:path";
import { rolldown } from "rolldown";
import { minify } from "terser";

const INLINED = "?inlined";

/**
 * No getter of ours does anything but answer, and no function is constructed that is no class.
 * @type {import("terser").MinifyOptions}
 */
export const TERSER = {
  module: true,
  ecma: 2020,
  compress: { passes: 4, pure_getters: true, unsafe_arrows: true },
};

/** Texts of workers by their files: several bundles of a build carry the same. @type {Map<string, Promise<string>>} */
const texts = new Map();

/** @param {string} file */
async function bundledText(file) {
  const bundle = await rolldown({ input: file, plugins: [inlineWorker] });
  const { output } = await bundle.generate({ format: "iife", minify: true, comments: false });
  const { code = "" } = await minify(output[0].code, TERSER);
  return code;
}

/** @type {import("rolldown").Plugin} */
export const inlineWorker = {
  name: "inline-worker",
  resolveId(path, importer) {
    if (!path.endsWith(`.js${INLINED}`)) return null;
    const file = path.slice(0, -`.js${INLINED}`.length);
    return resolve(dirname(importer ?? ""), `${file}.ts${INLINED}`);
  },
  async load(id) {
    if (!id.endsWith(INLINED)) return null;
    const file = id.slice(0, -INLINED.length);
    const text = texts.get(file) ?? bundledText(file);
    texts.set(file, text);
    return { code: `export default ${JSON.stringify(await text)};`, moduleType: "js" };
  },
};
