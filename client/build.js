/**
 * Builds dist/: the SDK, the agent and the console, their pages and the SDK's types, and the example
 * that is bundled. What a gateway serves is there compressed, too.
 */
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "esbuild";
import { buildChat, buildSdk, CHAT_EXAMPLE, chatExample, pages } from "./bundles.js";
import { buildDeclarations } from "./declarations.js";
import { writeGuide } from "./guide.js";

const COMPRESSED = /\.(js|css|html|json|svg)$/;

/** @param {string} algorithm @param {string | Buffer} content @param {"hex" | "base64"} form */
const hash = (algorithm, content, form) => createHash(algorithm).update(content).digest(form);

process.chdir(import.meta.dirname);
rmSync("dist", { recursive: true, force: true });
mkdirSync("dist");

const [sdk, chat] = await Promise.all([buildSdk(), buildChat(), build(pages)]);
for (const [name, text] of [...sdk, ...chat]) writeFileSync(`dist/${name}`, text);
rmSync(`${CHAT_EXAMPLE}/dist`, { recursive: true, force: true });
await build(chatExample);
cpSync("pages", "dist", { recursive: true });
writeGuide("dist/guide");
for (const file of ["swagger-ui-bundle.js", "swagger-ui.css"]) {
  cpSync(`node_modules/swagger-ui-dist/${file}`, `dist/${file}`);
}

// The same bytes at a name that never means others, and what pages need to know to use it.
const script = readFileSync("dist/sdk.js");
const file = `sdk-${hash("sha256", script, "hex").slice(0, 12)}.js`;
const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const integrity = `sha384-${hash("sha384", script, "base64")}`;
/** What sdk.js loads when a page needs it. */
const chunks = [...sdk.keys()].filter((name) => name.endsWith(".js") && name !== "sdk.js");
writeFileSync(`dist/${file}`, script);
const index = { version, file, integrity, chunks };
writeFileSync("dist/sdk.json", `${JSON.stringify(index, null, 2)}\n`);

for (const name of readdirSync("dist").filter((each) => COMPRESSED.test(each))) {
  const content = readFileSync(`dist/${name}`);
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  writeFileSync(`dist/${name}.br`, brotliCompressSync(content, { params }));
  writeFileSync(`dist/${name}.gz`, gzipSync(content, { level: 9 }));
}

buildDeclarations();
