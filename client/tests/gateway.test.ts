import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { session } from "../src/agent/session.js";
import { httpGateway } from "../src/gateway/gateway.js";
import { type Answer, ask, backoffMs, retried, sleep } from "../src/gateway/request.js";

const URL_OF_ZOO = new URL("http://zoo.test/x");

function answering(t: TestContext, make: (url: string, init: RequestInit) => Response): void {
  t.mock.method(globalThis, "fetch", async (url: URL, init: RequestInit) => make(`${url}`, init));
}

test("waits double from half a second to half a minute, less a random half", () => {
  assert.equal(
    backoffMs(0, () => 0),
    250,
  );
  assert.equal(
    backoffMs(3, () => 0.5),
    3000,
  );
  assert.equal(
    backoffMs(40, () => 0),
    15_000,
  );
});

test("an aborted wait ends at once", async () => {
  const stop = new AbortController();
  const waiting = sleep(60_000, stop.signal);
  stop.abort(new Error("stopped"));
  await assert.rejects(waiting, /stopped/);
  await assert.rejects(sleep(1, stop.signal), /stopped/);
});

test("204 is empty, a problem keeps its detail, 429 is to be tried later", async (t) => {
  answering(t, () => new Response(null, { status: 204 }));
  assert.deepEqual(await ask(URL_OF_ZOO), { kind: "empty" });
  t.mock.restoreAll();
  answering(t, () => Response.json({ detail: "no such lease" }, { status: 404 }));
  assert.deepEqual(await ask(URL_OF_ZOO), {
    kind: "refused",
    status: 404,
    detail: "no such lease",
    byGateway: true,
  });
  t.mock.restoreAll();
  const headers = { "Retry-After": "2" };
  answering(t, () => Response.json({ detail: "slow down" }, { status: 429, headers }));
  assert.deepEqual(await ask(URL_OF_ZOO), {
    kind: "unavailable",
    detail: "slow down",
    retryAfterMs: 2000,
  });
});

test("no network is an answer, an abort is thrown", async (t) => {
  t.mock.method(globalThis, "fetch", async () => {
    throw new TypeError("fetch failed");
  });
  const answer = await ask(URL_OF_ZOO);
  assert.equal(answer.kind, "unavailable");
  await assert.rejects(ask(URL_OF_ZOO, { signal: AbortSignal.abort() }));
});

test("requests are repeated until the gateway answers, and wait as it says", async () => {
  const answers: Answer<string>[] = [
    { kind: "unavailable", detail: "down", retryAfterMs: 0 },
    { kind: "unavailable", detail: "busy", retryAfterMs: 60_000 },
    { kind: "ok", value: "yes" },
  ];
  const waits: number[] = [];
  const answer = await retried(async () => answers.shift() as Answer<string>, {
    sleep: async () => undefined,
    waiting: (_, ms) => waits.push(ms),
  });
  assert.deepEqual(answer, { kind: "ok", value: "yes" });
  assert.equal(waits.length, 2);
  assert.equal(waits[1], 60_000);
});

test("the operator key goes with sessions and failures, the token with everything else", async (t) => {
  const seen: (readonly [string, unknown, unknown])[] = [];
  answering(t, (url, { headers }) => {
    const sent = new Headers(headers);
    seen.push([url, sent.get("X-Kernelzoo-Operator"), sent.get("Authorization")]);
    return Response.json({});
  });
  const gateway = httpGateway(new URL("http://zoo.test"), "key", new AbortController().signal);
  await gateway.openSession({} as never);
  await gateway.lease("t", { limit: 1, wait_s: 0 });
  await gateway.report("t", "l1", { nonce: "n", measurements: [] });
  await gateway.fileBallot("t", { workload: "w", lines: [], paired: false, in_tokens: false });
  await gateway.reportFailure({} as never);
  assert.deepEqual(seen, [
    ["http://zoo.test/v1/sessions", "key", null],
    ["http://zoo.test/v1/leases", null, "Bearer t"],
    ["http://zoo.test/v1/leases/l1/measurements", null, "Bearer t"],
    ["http://zoo.test/v1/ballots", null, "Bearer t"],
    ["http://zoo.test/v1/failures", "key", null],
  ]);
});

test("a token that has run out is replaced once for all requests that carried it", async () => {
  let opened = 0;
  const held = session(async () => ({
    token: `t${++opened}`,
    expires_in_s: 1,
    identity: "i",
    device_id: "d",
    device_class: "c",
    attestation: [],
  }));
  const request = async (token: string) =>
    token === "t1"
      ? ({ kind: "refused", status: 401, detail: "expired", byGateway: true } as const)
      : ({ kind: "ok", value: token } as const);
  const answers = await Promise.all([held.call(request), held.call(request)]);
  assert.deepEqual(
    answers.map((answer) => answer.kind === "ok" && answer.value),
    ["t2", "t2"],
  );
  assert.equal(opened, 2);
});

test("a session that could not be opened is tried again at the next request", async () => {
  let attempts = 0;
  const held = session(async () => {
    attempts += 1;
    throw new Error("refused");
  });
  const request = async () => ({ kind: "empty" }) as const;
  await assert.rejects(held.call(request), /refused/);
  await assert.rejects(held.call(request), /refused/);
  assert.equal(attempts, 2);
});
