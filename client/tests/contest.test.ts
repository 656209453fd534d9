/** Contests say which candidates of a model are measured next, and which are not tried again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Candidate } from "../src/tuning/candidate-stream.js";
import { type Contest, Contests } from "../src/tuning/contest.js";
import type { Running } from "../src/tuning/messages.js";

const candidate = (name: string, expected: number | null = null): Candidate =>
  ({ kernel: { sha256: name, candidate: name }, expected }) as unknown as Candidate;

const running = (name: string, workload = "product"): Running =>
  ({ workload, kernel: candidate(name).kernel, tolerance: 1 }) as unknown as Running;

const names = (candidates: readonly Candidate[]): readonly string[] =>
  candidates.map(({ kernel }) => kernel.sha256);

/** Contests in which the zoo's kernel runs, and `left` are still to be measured. */
function contestsOf(...left: readonly Candidate[]): readonly [Contests, Contest] {
  const contests = new Contests([running("zoo")], ["tried"]);
  contests.take({ workload: "product", candidates: left });
  return [contests, contests.next as Contest];
}

/** Has `winner` win after `row` was measured, all of which was faster than the kernel before. */
function winsOf(contests: Contests, own: Contest, row: readonly string[], winner: string): void {
  for (const name of row) contests.measured(own, candidate(name));
  const faster = row.map((name) => candidate(name));
  contests.wins(own, candidate(winner), faster);
}

test("the best expected come first, without what runs or was tried", () => {
  const [contests, own] = contestsOf(
    candidate("slow", 1.2),
    candidate("unknown"),
    candidate("fast", 0.8),
    candidate("zoo"),
    candidate("tried"),
  );
  assert.deepEqual(names(contests.row(own)), ["fast", "unknown", "slow"]);
  contests.expect("product", "slow", 0.5);
  assert.deepEqual(names(contests.row(own)), ["slow", "fast", "unknown"]);
});

test("while the agent of a page tries what nobody has, only what is expected to win is measured", () => {
  const [contests, own] = contestsOf(candidate("unknown"), candidate("fast", 0.8));
  contests.explores = false;
  assert.deepEqual(names(contests.row(own)), ["fast"]);
  contests.measured(own, candidate("fast"));
  assert.equal(contests.next, null);
  contests.explores = true;
  assert.deepEqual(names(contests.row(own)), ["unknown"]);
});

test("once a winner is lost those that were nearly as fast have another turn, and it has none", () => {
  const [contests, own] = contestsOf(candidate("a"), candidate("b"), candidate("c"));
  winsOf(contests, own, ["a", "b"], "a");
  contests.lost(running("zoo"), "a");
  assert.equal(own.running.kernel.sha256, "zoo");
  assert.deepEqual(names(contests.row(own)), ["b", "c"]);
  contests.take({ workload: "product", candidates: [candidate("a", 0.1)] });
  assert.deepEqual(names(contests.row(own)), ["b", "c"]);
});

test("a kernel that was lost while another won over it is no runner-up of that one", () => {
  const [contests, own] = contestsOf(candidate("a"), candidate("b"), candidate("c"));
  winsOf(contests, own, ["a"], "a");
  winsOf(contests, own, ["b"], "b");
  // The page has not heard of b yet, and takes a back.
  contests.lost(running("zoo"), "a");
  assert.equal(own.running.kernel.sha256, "b", "it runs next");
  contests.lost(running("zoo"), "b");
  assert.equal(own.running.kernel.sha256, "zoo");
  assert.deepEqual(names(contests.row(own)), ["c"]);
});

test("candidates of a row that fails are measured one by one, and the one at fault is given up", () => {
  const [contests, own] = contestsOf(candidate("a"), candidate("b"));
  assert.equal(contests.fails(own, contests.row(own)), null);
  assert.deepEqual(names(contests.row(own)), ["a"]);
  assert.deepEqual(contests.fails(own, contests.row(own)), candidate("a"));
  assert.deepEqual(names(contests.row(own)), ["b"]);
  contests.endsRow(own);
  contests.take({ workload: "product", candidates: [candidate("d")] });
  assert.deepEqual(names(contests.row(own)), ["b", "d"]);
});

test("most is won first where an inference takes most", () => {
  const contests = new Contests([running("zoo"), running("zoo", "sum")], []);
  for (const workload of ["product", "sum"]) {
    contests.take({ workload, candidates: [candidate(`${workload}.a`)] });
  }
  contests.times({ product: 1, sum: 8 });
  assert.equal(contests.next?.running.workload, "sum");
  contests.times({ product: 80, sum: 8 });
  assert.equal(contests.next?.running.workload, "product");
});
