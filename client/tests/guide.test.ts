import { equal, match } from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { rendered } from "../guide.js";

const RUNBOOK = readFileSync("../docs/runbook.md", "utf8");
const RULES = readFileSync("../dashboards/alerts/kernelzoo.yaml", "utf8");

test("every alert's address names a heading of the runbook page", () => {
  const page = rendered("runbook.md", RUNBOOK);
  const linked = [...RULES.matchAll(/runbook_url: ".*\/runbook#(\w+)"/g)].map(([, id]) => id);
  equal(linked.length, [...RULES.matchAll(/- alert: /g)].length);
  for (const id of linked) match(page, new RegExp(`<h2 id="${id}">`));
});

test("links lead to served documents, and to nowhere else within the repository", () => {
  const page = rendered(
    "adr/0001-x.md",
    "[a](../operations.md#scale-it) [b](0002-y.md) [c](../../compose.yaml) [d](https://zoo.example)",
  );
  match(page, /href="\/client\/guide\/operations.html#scale-it"/);
  match(page, /href="\/client\/guide\/adr\/0002-y.html"/);
  match(page, / c <a href="https:\/\/zoo.example">/);
});

test("headings have the anchors that links between documents use", () => {
  match(
    rendered("x.md", "## The fleet: browsers of `your` own"),
    /id="the-fleet-browsers-of-your-own"/,
  );
});
