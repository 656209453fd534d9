import assert from "node:assert/strict";
import { test } from "node:test";
import { Nudger } from "../src/backend/webgpu/nudger.js";

/** Each turn takes a twentieth of a millisecond; outputs are there after some submissions. */
function counted() {
  const told = { submitted: 0, turns: 0 };
  let resolve: (() => void) | null = null;
  let wanted = 0;
  const submit = (): undefined => {
    told.submitted += 1;
    if (told.submitted >= wanted) resolve?.();
  };
  const turn = async (): Promise<void> => {
    told.turns += 1;
  };
  const nudger = new Nudger({ submit }, turn, () => told.turns / 20);
  const outputs = (submissions: number): Promise<string> => {
    wanted = told.submitted + submissions;
    return new Promise((done) => {
      resolve = () => done("outputs");
    });
  };
  return { told, nudger, outputs };
}

const rest = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

test("a GPU's process is handed something every 0.1 ms until the outputs are there", async () => {
  const { told, nudger, outputs } = counted();
  assert.equal(await nudger.during(outputs(50)), "outputs");
  await rest();
  const { submitted, turns } = told;
  assert.ok(submitted >= 50 && submitted <= 52);
  assert.ok(turns >= 2 * submitted - 2 && turns <= 3 * submitted);
  await rest();
  assert.deepEqual(told, { submitted, turns });
});

test("a thread is kept busy for 20 ms at the most", async () => {
  const { told, nudger } = counted();
  let resolve = (): void => undefined;
  const late = nudger.during(new Promise<void>((done) => (resolve = done)));
  await rest();
  assert.ok(told.turns >= 400 && told.turns <= 401);
  resolve();
  await late;
});

test("what fails is thrown, and the next outputs are awaited as before", async () => {
  const { nudger, outputs } = counted();
  await assert.rejects(nudger.during(Promise.reject(new Error("lost"))), /lost/);
  assert.equal(await nudger.during(outputs(3)), "outputs");
});

test("where several outputs are awaited a GPU's process is handed something every 0.5 ms", async () => {
  const { told, nudger, outputs } = counted();
  const behind = nudger.during(new Promise<void>(() => undefined));
  behind.catch(() => undefined);
  await nudger.during(outputs(10));
  assert.ok(told.turns >= 90 && told.turns <= 115);
});

test("the page is told with each nudge from a time on, where one run is under way", async () => {
  const { told, nudger, outputs } = counted();
  let heard = 0;
  const tell = (): void => {
    heard += 1;
  };
  const soon = { at: 3, tell };
  await nudger.during(outputs(50), soon);
  await rest();
  // A nudge takes 0.1 to 0.15 ms: 50 take 5 to 7.5.
  assert.ok(heard >= 20 && heard <= told.submitted - 20, `${heard} of ${told.submitted}`);
  const behind = nudger.during(new Promise<void>(() => undefined));
  behind.catch(() => undefined);
  const before = heard;
  await nudger.during(outputs(10), soon);
  assert.equal(heard, before);
});
