/**
 * Builds dist/: the SDK, the agent and the console, their pages and the SDK's types, and the example
 * that is bundled. What a gateway serves is there compressed, too.
 */
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "esbuild";
import {
  buildChat,
  buildOrt,
  buildPages,
  buildPinnedSdk,
  buildSdk,
  CHAT_EXAMPLE,
  chatExample,
  style,
} from "./bundles.js";
import { buildDeclarations } from "./declarations.js";
import { writeGuide } from "./guide.js";

const COMPRESSED = /\.(js|css|html|json|svg)$/;

process.chdir(import.meta.dirname);
rmSync("dist", { recursive: true, force: true });
for (const folder of ["chunks", "pinned"]) mkdirSync(`dist/${folder}`, { recursive: true });

const [sdk, pinned, chat, ort, scripts] = await Promise.all([
  buildSdk(),
  buildPinnedSdk(),
  buildChat(),
  buildOrt(),
  buildPages(),
  build(style),
]);
for (const [name, text] of [...sdk, ...pinned, ...chat, ...ort, ...scripts]) {
  writeFileSync(`dist/${name}`, text);
}
rmSync(`${CHAT_EXAMPLE}/dist`, { recursive: true, force: true });
await build(chatExample);
cpSync("pages", "dist", { recursive: true });
writeGuide("dist/guide");
for (const file of ["swagger-ui-bundle.js", "swagger-ui.css"]) {
  cpSync(`node_modules/swagger-ui-dist/${file}`, `dist/${file}`);
}

// What pages need to know to use the SDK at the name that never means other bytes.
const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const [file = ""] = [...pinned.keys()].filter((name) => /^sdk-\w+\.js$/.test(name));
const digest = createHash("sha384").update(pinned.get(file) ?? "");
const integrity = `sha384-${digest.digest("base64")}`;
/** What sdk.js loads when a page needs it. */
const chunks = [...sdk.keys()].filter((name) => name.endsWith(".js") && name !== "sdk.js");
const index = { version, file, integrity, chunks };
writeFileSync("dist/sdk.json", `${JSON.stringify(index, null, 2)}\n`);

const served = ["", "chunks/", "pinned/"].flatMap((folder) =>
  readdirSync(`dist/${folder}`).map((name) => folder + name),
);
for (const name of served.filter((path) => COMPRESSED.test(path))) {
  const content = readFileSync(`dist/${name}`);
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  writeFileSync(`dist/${name}.br`, brotliCompressSync(content, { params }));
  writeFileSync(`dist/${name}.gz`, gzipSync(content, { level: 9 }));
}

buildDeclarations();
