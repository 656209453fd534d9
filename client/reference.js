/**
 * Writes docs/api/sdk.md, chat.md and ort.md from the sources of the package. With `--check` it writes
 * nothing, and fails where one of them says something else.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const TYPEDOC = "node_modules/typedoc/bin/typedoc";
const MADE = "node_modules/.cache/reference";
const KEPT = "../docs/api";
const WRITTEN = "`make generate` writes this file from the comments in\n`client/src`.";
const HEADS = {
  sdk: `# Reference of the SDK

What \`import { … } from "kernelzoo"\` gives. ${WRITTEN} [Add kernelzoo to a site](../web-developers.md) tells how to use it.

`,
  chat: `# Reference of text and conversations

What \`import { … } from "kernelzoo/chat"\` gives. ${WRITTEN} [Language models in a page](../language-models.md) tells how to use it.

`,
  ort: `# Reference of onnxruntime-web's interface

What \`import { … } from "kernelzoo/ort"\` gives beside what \`onnxruntime-common\` does, such as \`Tensor\`. ${WRITTEN} [Ten minutes with your transformers.js app](../ort.md) tells how to use it.

`,
};

process.chdir(import.meta.dirname);
execFileSync(process.execPath, [TYPEDOC, "--logLevel", "Error"], { stdio: "inherit" });
for (const [name, head] of Object.entries(HEADS)) {
  const text = head + readFileSync(`${MADE}/${name}.md`, "utf8");
  const kept = `${KEPT}/${name}.md`;
  if (!process.argv.includes("--check")) {
    writeFileSync(kept, text);
  } else if (readFileSync(kept, "utf8") !== text) {
    console.error(`docs/api/${name}.md is not what client/src says; run \`make generate\``);
    process.exit(1);
  }
}
