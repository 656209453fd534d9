/** The documents of docs/ as pages that every gateway serves: what an alert links to is at hand. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { Marked } from "marked";

const SOURCE = "../docs";
const ADDRESS = "/client/guide";

/**
 * As GitHub makes them of headings, so that links between documents hold here too: the second of
 * two that are alike ends in -1. `seen` counts them.
 * @param {string} heading
 * @param {Map<string, number>} seen
 */
function anchor(heading, seen) {
  const name = heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, "")
    .replaceAll(" ", "-");
  const before = seen.get(name) ?? 0;
  seen.set(name, before + 1);
  return before === 0 ? name : `${name}-${before}`;
}

/**
 * A link of the document `path`; null where it leads to something that is not served.
 * @param {string} path
 * @param {string} href
 */
function served(path, href) {
  if (/^([a-z]+:|#)/.test(href)) return href;
  const [file = "", hash = ""] = href.split("#");
  const target = normalize(join(dirname(path), file));
  if (target.startsWith("..") || !target.endsWith(".md")) return null;
  return `${ADDRESS}/${target.replace(/\.md$/, ".html")}${hash && `#${hash}`}`;
}

const escaped = (/** @type {string} */ text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

const page = (/** @type {string} */ title, /** @type {string} */ body) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>${escaped(title)} · kernelzoo</title>
    <link rel="icon" href="/client/icon.svg">
    <link rel="stylesheet" href="/client/style.css">
  </head>
  <body>
    <header>
      <a class="brand" href="/console"><img src="/client/icon.svg" alt="" width="22" height="22">kernelzoo</a>
      <nav><a href="/console">Console</a> <a href="/runbook">Runbook</a></nav>
    </header>
    <main class="guide">${body}</main>
  </body>
</html>
`;

/**
 * @param {string} path within docs/
 * @param {string} markdown
 */
export function rendered(path, markdown) {
  const seen = new Map();
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        return `<h${depth} id="${anchor(text, seen)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const address = served(path, href);
        const inside = this.parser.parseInline(tokens);
        return address === null ? inside : `<a href="${escaped(address)}">${inside}</a>`;
      },
      image: ({ text }) => escaped(text),
    },
  });
  const title = /^# (.+)$/m.exec(markdown)?.[1] ?? path;
  return page(title, marked.parse(markdown, { async: false }));
}

/**
 * Writes them below `folder`.
 * @param {string} folder
 */
export function writeGuide(folder) {
  for (const path of readdirSync(SOURCE, { recursive: true, encoding: "utf8" })) {
    if (!path.endsWith(".md")) continue;
    const target = join(folder, path.replace(/\.md$/, ".html"));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, rendered(path, readFileSync(join(SOURCE, path), "utf8")));
  }
}
