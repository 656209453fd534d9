/**
 * `import source from "./worker.js?inlined"` is that worker, bundled, as text. A worker's address
 * must be of the page's own origin, and the SDK may come from any: so it carries its worker along.
 *
 * `import source from "./worker.js?parts"` is the same, put together of texts that such workers share: a
 * site whose bundler makes one file of the SDK has each of them once.
 */
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { rolldown } from "rolldown";
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

/** @param {string} chunk */
const constant = (chunk) => chunk.replaceAll("-", "_");

/**
 * A module of a worker as a statement of a script, whose exports are properties of one constant.
 * @param {string} name
 * @param {string} code
 */
function statement(name, code) {
  const pairs = (/** @type {string} */ list, /** @type {boolean} */ exported) =>
    list
      .split(",")
      .map((each) => each.trim().split(" as "))
      .map(([from, to = from]) => (exported ? `${to}:${from}` : `${from}:${to}`))
      .join(",");
  const inside = code
    .replaceAll(
      /import\{([^}]*)\}from"\.\/([\w-]+)\.js";/g,
      (_, list, from) => `const{${pairs(list, false)}}=${constant(from)};`,
    )
    .replaceAll(/import"\.\/[\w-]+\.js";/g, "")
    .replace(/export\{([^}]*)\};?\s*$/, (_, list) => `;return{${pairs(list, true)}}`);
  if (/\b(import|export)\s*[{"]/.test(inside)) throw new Error(`${name} is no part of a script`);
  return `const ${constant(name)}=(()=>{"use strict";${inside}})();\n`;
}

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

/** Parts of workers take data from a part of its own. @type {import("rolldown").Plugin} */
const dataApart = {
  name: "data-apart",
  resolveId: {
    order: "pre",
    handler(path, importer) {
      const file = resolve(dirname(importer ?? ""), path.replace(/\.js$/, ".ts"));
      return DATA.test(file) ? { id: `./${dataName(file)}.js`, external: true } : null;
    },
  },
};

/**
 * The statements of all workers in parts by name, for each worker's file their names in order, and the
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

/** @param {string} folder */
async function bundledParts(folder) {
  const files = sourcesIn(folder);
  const workers = workersInParts(files);
  const names = new Map(workers.map((file, i) => [file, `worker${i}`]));
  const parts = partition(workers);
  const bundle = await rolldown({
    input: Object.fromEntries(workers.map((file, i) => [`worker${i}`, file])),
    plugins: [dataApart, inlineWorker, atOnce, parts.plugin],
    preserveEntrySignatures: false,
  });
  const { output } = await bundle.generate({
    format: "esm",
    minify: true,
    comments: false,
    entryFileNames: "[name].js",
    chunkFileNames: "[name].js",
    codeSplitting: {
      groups: [{ name: parts.nameOf, debugName: "parts" }],
      includeDependenciesRecursively: false,
    },
  });
  const chunks = output.filter((file) => file.type === "chunk");
  const statements = await Promise.all(
    chunks.map(async ({ name, code }) => {
      const { code: text = "" } = await minify(code, TERSER);
      return /** @type {const} */ ([name, statement(name, text)]);
    }),
  );
  const imports = new Map(
    chunks.map(({ name, imports }) => [name, imports.map((file) => basename(file, ".js"))]),
  );
  /** Those that one needs before it. @type {(name: string, before: Set<string>) => Set<string>} */
  const inOrder = (name, before) => {
    if (before.has(name)) return before;
    for (const needed of imports.get(name) ?? []) inOrder(needed, before);
    return before.add(name);
  };
  const partsOf = new Map(
    workers.map((file) => [file, [...inOrder(names.get(file) ?? "", new Set())]]),
  );
  const data = new Map(
    files.filter((file) => DATA.test(file)).map((file) => [dataName(file), file]),
  );
  return { texts: new Map(statements), partsOf, data };
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
    const code = `${imports.join("")}export default ${parts.map(constant).join(" + ")};`;
    return { code, moduleType: "js", moduleSideEffects: false };
  },
};
