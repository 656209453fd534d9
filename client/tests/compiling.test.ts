/** Deadlines of pipelines, with drivers that end when the test says so. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CompileDeadline, SharedDeadline } from "../src/backend/webgpu/deadlines.js";
import { OpenDevice } from "../src/backend/webgpu/device.js";
import { compiled, compilesOneByOne } from "../src/backend/webgpu/pipeline-queue.js";

const LIMIT_MS = 20;

function device(): OpenDevice {
  const lost = new Promise<GPUDeviceLostInfo>(() => undefined);
  const made = { features: new Set<string>(), limits: {}, lost, destroy: () => undefined };
  return new OpenDevice(made as unknown as GPUDevice);
}

interface Slow {
  readonly make: () => Promise<string>;
  end(): void;
  readonly begun: boolean;
}

function slow(): Slow {
  let end: () => void = () => undefined;
  let begun = false;
  const ended = new Promise<string>((resolve) => {
    end = () => resolve("made");
  });
  return {
    make: () => {
      begun = true;
      return ended;
    },
    end: () => end(),
    get begun() {
      return begun;
    },
  };
}

/** Resolves after all work that waits for no timer. */
const everythingThatCanRun = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const thrownBy = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => assert.fail("it was made"),
    (thrown: unknown) => thrown,
  );

test("of several pipelines that do not come nobody is blamed, and each is then asked for alone", async () => {
  const open = device();
  const drivers = [slow(), slow()];
  const thrown = await Promise.all(
    drivers.map(({ make }) => thrownBy(compiled(open, make, LIMIT_MS))),
  );
  for (const each of thrown) {
    assert.ok(each instanceof SharedDeadline, String(each));
    assert.match(each.message, /driver did not answer/);
  }
  assert.ok(open.loss !== null);
  assert.ok(compilesOneByOne());
  const next = slow();
  next.end();
  const waiting = compiled(device(), next.make, LIMIT_MS);
  await everythingThatCanRun();
  assert.equal(next.begun, false, "nothing is asked of a driver that has not ended");
  drivers[0]?.end();
  await everythingThatCanRun();
  assert.equal(next.begun, false, "nor while one of two pipelines is left");
  drivers[1]?.end();
  assert.equal(await waiting, "made");
});

test("a pipeline that alone does not come fails to compile, and the next has another device", async () => {
  const open = device();
  const driver = slow();
  const thrown = await thrownBy(compiled(open, driver.make, LIMIT_MS));
  assert.ok(thrown instanceof CompileDeadline);
  assert.equal(thrown.stage, "compile");
  assert.match(thrown.message, /did not compile this kernel within 0.02 s/);
  assert.ok(open.loss instanceof SharedDeadline, "others on the device are not blamed for it");
  driver.end();
  assert.equal(await compiled(device(), async () => "made", LIMIT_MS), "made");
  const refused = await thrownBy(compiled(open, async () => "made", LIMIT_MS));
  assert.equal(refused, open.loss, "nothing more is asked of the device that was given up");
});
