/**
 * `import source from "./worker.js?inlined"` is that worker, bundled, as text. A worker's address
 * must be of the page's own origin, and the SDK may come from any: so it carries its worker along.
 *
 * `import source from "./worker.js?parts"` is the same, put together of texts that such workers share: a
 * site whose bundler makes one file of the SDK has each of them once.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { rolldown } from "rolldown";
import { minify as minifyByOxc } from "rolldown/utils";
import { minify } from "terser";
import { partition } from "./worker-parts.js";

const INLINED = "?inlined";
const PARTS = "?parts";
/** A text that several workers share. */
const PART = "\0part:";

/** Modules of data alone, which a page shares with the texts of its workers: both have them as JSON. */
const DATA = /\/probe\/((gpu-)?modules)\.ts$/;
const JSON_OF = "\0json:";

/** The name of a module of data among the parts of workers. @param {string} file */
const dataName = (file) => `data-${DATA.exec(file)?.[1]}`;

/** What a module of data exports, as JSON. @param {string} file */
async function jsonOf(file) {
  const bundle = await rolldown({ input: file });
  const { output } = await bundle.generate({ format: "esm" });
  return JSON.stringify(await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`));
}

/** No getter of ours does anything but answer, and no function is constructed that is no class. */
const COMPRESS = { passes: 4, pure_getters: true, unsafe_arrows: true };

/** @type {import("terser").MinifyOptions} */
export const TERSER = { module: true, ecma: 2020, compress: COMPRESS };

/**
 * A field that its constructor sets is declared for TypeScript alone, and no class of ours sets a field
 * of the one that it extends.
 * @type {NonNullable<import("rolldown").InputOptions["transform"]>}
 */
export const TRANSFORM = {
  assumptions: { setPublicClassFields: true },
  typescript: { removeClassFieldsWithoutInitializer: true },
};

/** Texts of workers by their files: several bundles of a build carry the same. @type {Map<string, Promise<string>>} */
const texts = new Map();

/** @param {string} file */
async function bundledText(file) {
  const bundle = await rolldown({ input: file, plugins: [inlineWorker], transform: TRANSFORM });
  const { output } = await bundle.generate({ format: "iife", minify: true, comments: false });
  const { code = "" } = await minify(output[0].code, TERSER);
  return code;
}

/** @param {string} folder */
const sourcesIn = (folder) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => resolve(folder, name));

/**
 * The workers of which sources import parts.
 * @param {readonly string[]} files
 */
function workersInParts(files) {
  const imported = files.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/(?:from |import\()"([^"]+)\.js\?parts"/g)].map(
      ([, path]) => resolve(dirname(file), `${path}.ts`),
    ),
  );
  return [...new Set(imported)].sort();
}

/** The name of a part in the scripts of workers and in the module that puts them together. @param {string} part */
const constant = (part) => part.replaceAll("-", "_");

/**
 * A worker loads no further files: what its modules import when it is needed is there from the start.
 * @type {import("rolldown").Plugin}
 */
const atOnce = {
  name: "at-once",
  transform(code) {
    /** @type {string[]} */
    const imports = [];
    const text = code.replaceAll(/\bimport\(("\.[^"]+")\)/g, (_, path) => {
      imports.push(`import * as imported${imports.length} from ${path};`);
      return `Promise.resolve(imported${imports.length - 1})`;
    });
    return imports.length === 0 ? null : { code: `${text}\n${imports.join("\n")}`, map: null };
  },
};

/**
 * What all workers together are bundled of: names are then unlike in all their modules, so that parts
 * stand one after the other in a script and say nothing of what they import and export.
 */
const ALL = "\0workers";

/**
 * Data is a constant that stands before the parts of a worker.
 * @param {readonly string[]} workers
 * @returns {import("rolldown").Plugin}
 */
const together = (workers) => ({
  name: "workers-together",
  resolveId(path, importer) {
    if (path === ALL) return path;
    // Workers do something, unlike whatever else a page may import of this package.
    return importer === ALL ? { id: path, moduleSideEffects: true } : null;
  },
  async load(id) {
    if (id === ALL) return workers.map((file) => `import ${JSON.stringify(file)};`).join("\n");
    if (!DATA.test(id)) return null;
    const names = Object.keys(JSON.parse(await jsonOf(id))).join(", ");
    return { code: `export const { ${names} } = ${constant(dataName(id))};`, moduleType: "js" };
  },
});

/**
 * The texts of all parts by name, for each worker's file the names of its parts in order, and the
 * files of those that are data.
 * @type {Promise<Awaited<ReturnType<typeof bundledParts>>> | undefined}
 */
let bundling;

/**
 * Bundles them once for all bundles of a build, whichever worker is asked for first.
 * @param {string} worker
 */
function inParts(worker) {
  bundling ??= bundledParts(worker.slice(0, worker.lastIndexOf("/src/") + "/src".length));
  return bundling;
}

/**
 * Minifies parts as one script, as each uses names of others: what a single part uses moves there.
 * @param {readonly string[]} codes
 */
async function minifiedTogether(codes) {
  // No other statement stays where it is and what it is.
  const mark = "debugger;";
  const script = codes.map((code) => `${code}\n${mark}\n`).join("");
  const once = await minifyByOxc("workers.js", script, {
    module: true,
    compress: { dropDebugger: false },
  });
  const compress = { ...COMPRESS, drop_debugger: false };
  const { code = "" } = await minify(once.code, { ...TERSER, compress });
  const texts = code.split(mark).slice(0, -1);
  if (texts.length !== codes.length) throw new Error("the parts of workers cannot be told apart");
  return texts;
}

/** @param {string} folder */
async function bundledParts(folder) {
  const files = sourcesIn(folder);
  const workers = workersInParts(files);
  const parts = partition(workers);
  const bundle = await rolldown({
    input: ALL,
    plugins: [together(workers), inlineWorker, atOnce, parts.plugin],
    transform: TRANSFORM,
    preserveEntrySignatures: false,
  });
  const { output } = await bundle.generate({
    format: "esm",
    comments: false,
    codeSplitting: false,
  });
  const [{ moduleIds, modules }] = output;
  const data = new Map(
    files.filter((file) => DATA.test(file)).map((file) => [dataName(file), file]),
  );
  const idsOf = (/** @type {string} */ part) => moduleIds.filter((id) => parts.nameOf(id) === part);
  const codeOf = (/** @type {string} */ part) =>
    idsOf(part)
      .map((id) => modules[id]?.code ?? "")
      .join("\n");
  const orders = workers.map((file) => parts.inOrder(file));
  const names = [parts.unnamed, ...new Set(orders.flat())];
  const texts = await minifiedTogether(names.map(codeOf));
  /** A part behind what it reads: the bundler's own functions, and data. */
  const withRead = (/** @type {string} */ part) => [
    ...(/\b__\w+\(/.test(codeOf(part)) ? [parts.unnamed] : []),
    ...idsOf(part)
      .filter((id) => DATA.test(id))
      .map(dataName),
    part,
  ];
  const partsOf = new Map(
    workers.map((file, i) => [file, [...new Set(orders[i]?.flatMap(withRead))]]),
  );
  return { texts: new Map(names.map((name, i) => [name, texts[i] ?? ""])), partsOf, data };
}

/** @type {import("rolldown").Plugin} */
export const inlineWorker = {
  name: "inline-worker",
  resolveId(path, importer) {
    if (path.startsWith(PART) || path.startsWith(JSON_OF)) return path;
    const [, file, query] = /^(.*)\.js(\?inlined|\?parts)$/.exec(path) ?? [];
    return file === undefined ? null : resolve(dirname(importer ?? ""), `${file}.ts${query}`);
  },
  async load(id) {
    if (id.startsWith(JSON_OF)) {
      const code = `export default ${JSON.stringify(await jsonOf(id.slice(JSON_OF.length)))};`;
      return { code, moduleType: "js", moduleSideEffects: false };
    }
    if (DATA.test(id)) {
      const names = Object.keys(JSON.parse(await jsonOf(id))).join(", ");
      const json = `import json from ${JSON.stringify(JSON_OF + id)};`;
      const code = `${json}\nexport const { ${names} } = JSON.parse(json);`;
      return { code, moduleType: "js", moduleSideEffects: false };
    }
    if (id.startsWith(PART)) {
      const { texts, data } = await inParts(id);
      const name = id.slice(PART.length);
      const file = data.get(name);
      if (file === undefined) return `export default ${JSON.stringify(texts.get(name))};`;
      const json = `import json from ${JSON.stringify(JSON_OF + file)};`;
      return `${json}\nexport default "const ${constant(name)}=" + json + ";\\n";`;
    }
    if (id.endsWith(INLINED)) {
      const file = id.slice(0, -INLINED.length);
      const text = texts.get(file) ?? bundledText(file);
      texts.set(file, text);
      return { code: `export default ${JSON.stringify(await text)};`, moduleType: "js" };
    }
    if (!id.endsWith(PARTS)) return null;
    const { partsOf } = await inParts(id);
    const parts = partsOf.get(id.slice(0, -PARTS.length)) ?? [];
    const imports = parts.map(
      (name) => `import ${constant(name)} from ${JSON.stringify(PART + name)};\n`,
    );
    const script = [`'(()=>{"use strict";'`, ...parts.map(constant), '"})()"'].join(" + ");
    const code = `${imports.join("")}export default ${script};`;
    return { code, moduleType: "js", moduleSideEffects: false };
  },
};
