/** The agent's loop against a gateway and an instrument that are made up. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runAgent } from "../src/agent/loop.js";
import type { AgentEvent } from "../src/agent/messages.js";
import { session } from "../src/agent/session.js";
import { INITIAL_STATE, reduce } from "../src/agent/state.js";
import type { AgentPorts } from "../src/agent/work.js";
import type { Gateway } from "../src/gateway/gateway.js";
import { type Answer, retried } from "../src/gateway/request.js";
import type { Instrument } from "../src/measurer/instrument.js";
import { turns } from "../src/measurer/turns.js";
import { gate } from "../src/timing/gate.js";
import type {
  BallotRequest,
  KernelWire,
  Lease,
  LeaseReport,
  MeasurementWire,
} from "../src/wire/types.js";
import { tinyKernel, tinyLease } from "./kernels.js";

const kernel = (candidate: string): KernelWire => ({ ...tinyKernel("add", 4), candidate });
const lease = (candidates: readonly string[], rest: Partial<Lease> = {}): Lease => ({
  ...tinyLease(candidates.map(kernel)),
  ...rest,
});

/** Times in ns by candidate; absent ones fail to run. */
function fakeInstrument(times: Readonly<Record<string, number>>): Instrument {
  const measured = (candidate: string): MeasurementWire => {
    const time = times[candidate];
    const ok = time !== undefined;
    return {
      candidate,
      outcome: ok ? "ok" : "run",
      samples_ns: ok ? [time, time + 5] : [],
      reference_ns: ok ? [100, 120] : [],
      calls_per_sample: 1,
      sampled_entries: [],
      detail: ok ? "" : "trap",
    };
  };
  return {
    open: async () => ({
      candidate:
        async ({ candidate }) =>
        () =>
          measured(candidate),
      again: async (kernels) => () => kernels.map((each) => (times[each.candidate] ?? 0) / 100),
      dispose: () => undefined,
    }),
  };
}

interface Script {
  readonly leases: Answer<Lease>[];
  readonly reports?: Answer<unknown>[];
  readonly times?: Readonly<Record<string, number>>;
  readonly inTokens?: AgentPorts["inTokens"];
}

/** Runs the agent until the scripted leases are used up. */
async function play({ leases, reports = [], times = {}, inTokens }: Script) {
  const stop = new AbortController();
  const events: AgentEvent[] = [];
  const sent: LeaseReport[] = [];
  const ballots: BallotRequest[] = [];
  let opened = 0;
  const gateway: Gateway = {
    openSession: async () => ({ kind: "empty" }),
    attest: async () => ({ kind: "empty" }),
    lease: async () => {
      const next = leases.shift();
      if (next === undefined) stop.abort(new Error("end of the script"));
      return next ?? { kind: "empty" };
    },
    report: async (_token, _lease, report) => {
      sent.push(report);
      return reports.shift() ?? { kind: "ok", value: {} };
    },
    fileBallot: async (_token, ballot) => {
      ballots.push(ballot);
      return { kind: "ok", value: {} };
    },
    reportFailure: async () => ({ kind: "empty" }),
  };
  const ports: AgentPorts = {
    target: "wasm",
    workloads: null,
    gateway,
    session: session(async () => ({
      token: `t${++opened}`,
      expires_in_s: 900,
      identity: "i",
      device_id: "d",
      device_class: "c",
      attestation: [],
    })),
    instrument: fakeInstrument(times),
    withTurn: turns(undefined, undefined),
    gate: gate(),
    emit: (event) => void events.push(event),
    retried: (request) =>
      retried(request, { sleep: async () => undefined, waiting: () => undefined }),
    sleep: async () => undefined,
    inTokens: inTokens ?? (async () => null),
    sinceOpenMs: () => 700,
  };
  await runAgent([async () => ports], stop.signal);
  const state = events.reduce(reduce, INITIAL_STATE);
  return { events, sent, ballots, opened, state };
}

const ok = (value: Lease): Answer<Lease> => ({ kind: "ok", value });
const refused = (status: number): Answer<never> => ({
  kind: "refused",
  status,
  detail: "no",
  byGateway: true,
});
const reported = (sent: readonly LeaseReport[]): readonly string[] =>
  sent.flatMap(({ measurements }) => measurements.map(({ candidate }) => candidate));

test("a lease is measured, reported with its nonce, voted on, and then decided", async () => {
  const { sent, ballots, state, events } = await play({
    leases: [ok(lease(["a", "b", "c"]))],
    times: { a: 90, b: 80 },
  });
  assert.deepEqual(reported(sent), ["a", "b", "c"]);
  assert.ok(sent.every(({ nonce }) => nonce === "nonce-1"));
  assert.equal(ballots.length, 2);
  assert.deepEqual(ballots[0]?.lines, [
    { candidate: "b", relative_time: 0.8 },
    { candidate: "a", relative_time: 0.9 },
  ]);
  assert.equal(state.firstTimedMs, 700);
  assert.equal(events.filter(({ type }) => type === "firstTimed").length, 1);
  const [workload] = state.workloads;
  assert.equal(workload?.ballot?.final, true);
  assert.deepEqual(
    workload?.bars.map(({ outcome }) => outcome),
    ["ok", "ok", "run"],
  );
  assert.equal(workload?.remaining, 0);
});

test("the final ballot says what whole tokens of the page's model say, and that they do", async () => {
  const asked: (readonly (string | number)[])[] = [];
  const { ballots } = await play({
    leases: [ok(lease(["a", "b"]))],
    times: { a: 90, b: 80 },
    inTokens: async (workload, finalists) => {
      asked.push([workload, ...finalists.map(({ relativeTime }) => relativeTime)]);
      return [0.8, 0.75];
    },
  });
  assert.deepEqual(asked, [[lease([]).workload, 0.8, 0.9]]);
  assert.deepEqual(
    ballots.map(({ in_tokens }) => in_tokens),
    [false, true],
  );
  assert.deepEqual(ballots[1]?.lines, [
    { candidate: "a", relative_time: 0.75 },
    { candidate: "b", relative_time: 0.8 },
  ]);
});

test("results of several leases meet in one ballot, and only the last one is final", async () => {
  const { ballots, state } = await play({
    leases: [ok(lease(["a"], { unmeasured: 1 })), ok(lease(["b"]))],
    times: { a: 90, b: 80 },
  });
  assert.deepEqual(
    ballots.map(({ lines }) => lines.map(({ candidate }) => candidate).join("")),
    ["a", "ba", "ba"],
  );
  assert.equal(state.workloads.length, 1);
});

test("an empty lease that closes a shared space makes the final ballot of what was measured", async () => {
  const { ballots, sent, state } = await play({
    leases: [ok(lease(["a", "b"], { complete: false })), ok(lease([]))],
    times: { a: 90, b: 80 },
  });
  assert.deepEqual(reported(sent), ["a", "b"]);
  assert.equal(ballots.length, 3);
  assert.equal(state.workloads[0]?.ballot?.final, true);
});

test("what this browser reported before this page takes part in the ballot", async () => {
  const measured = [{ kernel: kernel("z"), relative_time: 0.85 }];
  const { ballots } = await play({
    leases: [ok(lease(["a", "b"], { measured }))],
    times: { a: 90, b: 80, z: 70 },
  });
  const orders = ballots.map(({ lines }) => lines.map(({ candidate }) => candidate).join(""));
  assert.deepEqual(orders, ["bza", "zba"], "and is measured again for the final one");
});

test("the final ballot is paired, and compares what the lease names beside the agent's own best", async () => {
  const own = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`k${i}`, 50 + i]));
  const asked = { finalists: ["k8", "unknown"] };
  const { ballots } = await play({
    leases: [ok(lease(Object.keys(own), asked))],
    times: own,
  });
  assert.deepEqual(
    ballots.map(({ paired, lines }) => [paired, lines.length]),
    [
      [false, 5],
      [true, 8],
    ],
  );
  assert.equal(ballots[1]?.lines.at(-1)?.candidate, "k8");
});

test("while candidates are still being compiled there is no final ballot", async () => {
  const { ballots } = await play({
    leases: [ok(lease(["a"], { complete: false }))],
    times: { a: 90 },
  });
  assert.equal(ballots.length, 1);
});

test("a lease in which nothing worked files no ballot", async () => {
  const { ballots, sent } = await play({ leases: [ok(lease(["a", "b"]))] });
  assert.equal(ballots.length, 0);
  assert.deepEqual(reported(sent), ["a", "b"]);
});

test("a measurement that was not accepted is on no ballot", async () => {
  const { ballots, events } = await play({
    leases: [ok(lease(["a"])), ok(lease(["b"]))],
    reports: [refused(409)],
    times: { a: 10, b: 80 },
  });
  assert.ok(ballots.every(({ lines }) => lines.every(({ candidate }) => candidate === "b")));
  assert.ok(events.some(({ type }) => type === "error"));
});

test("a lease that is over is dropped and the next one is asked for", async () => {
  const { ballots, state } = await play({
    leases: [ok(lease(["a", "b"])), ok(lease(["c"]))],
    reports: [refused(410)],
    times: { a: 10, b: 20, c: 30 },
  });
  assert.deepEqual(ballots.at(-1)?.lines, [{ candidate: "c", relative_time: 0.3 }]);
  assert.equal(state.workloads[0]?.ballot?.final, true);
});

test("a session that ran out is opened again and the report is sent again", async () => {
  const { sent, opened, ballots } = await play({
    leases: [refused(401), ok(lease(["a"]))],
    reports: [refused(401)],
    times: { a: 90 },
  });
  assert.equal(opened, 3);
  assert.deepEqual(reported(sent), ["a", "a"]);
  assert.equal(ballots.length, 2);
});

test("a gateway that is away for a while loses nothing", async () => {
  const away: Answer<never> = { kind: "unavailable", detail: "away", retryAfterMs: 0 };
  const { sent, ballots } = await play({
    leases: [away, ok(lease(["a"]))],
    reports: [away, away],
    times: { a: 90 },
  });
  assert.deepEqual(reported(sent), ["a", "a", "a"]);
  assert.equal(ballots.length, 2);
});

test("a refusal costs a wait and is shown until the next lease", async () => {
  const { events, state } = await play({
    leases: [refused(422), ok(lease(["a"]))],
    times: { a: 90 },
  });
  const [error] = events;
  assert.ok(error?.type === "error" && error.message === "no" && error.retryInMs !== null);
  assert.equal(state.error, null);
});

test("what a paused agent still says does not end its pause", () => {
  const events: readonly AgentEvent[] = [
    { type: "paused", why: "hand" },
    { type: "measuring", target: "wasm", workload: "w", candidate: "c" },
    { type: "idle" },
  ];
  const paused = events.reduce(reduce, INITIAL_STATE);
  assert.equal(paused.phase, "paused");
  assert.equal(reduce(paused, { type: "resumed" }).phase, "waiting");
});

test("what a lease has no time left for is said and left, and nothing is decided yet", async () => {
  const { sent, ballots, events } = await play({
    leases: [ok(lease(["a", "b"], { expires_in_s: -1 })), ok(lease(["a", "b"]))],
    times: { a: 90, b: 80 },
  });
  assert.deepEqual(reported(sent), ["a", "b"]);
  const said = events.flatMap((event) => (event.type === "error" ? [event.message] : []));
  assert.deepEqual(said, [
    "The lease ended before 2 of 2 candidates were measured; they are lent again.",
  ]);
  assert.equal(ballots.length, 2);
});

test("a session is replaced before it ends, and one that was refused is opened again", async () => {
  let nowMs = 0;
  const tokens: string[] = [];
  const given = {
    expires_in_s: 900,
    identity: "",
    device_id: "",
    device_class: "",
    attestation: [],
  };
  const answers = ["first", "second"].map((token) => ({ ...given, token }));
  const open = session(
    async () => {
      const answer = answers.shift();
      if (answer === undefined) throw new Error("refused");
      return answer;
    },
    () => nowMs,
  );
  const ask = async (): Promise<void> => {
    await open.call(async (token) => {
      tokens.push(token);
      return { kind: "empty" };
    });
  };
  await ask();
  nowMs = 670_000;
  await ask();
  nowMs = 680_000;
  await ask();
  assert.deepEqual(tokens, ["first", "first", "second"]);
  nowMs = 2_000_000;
  await assert.rejects(ask(), /refused/);
  answers.push({ ...given, token: "third" });
  await ask();
  assert.equal(tokens.at(-1), "third");
});
