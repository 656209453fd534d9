/** An agent whose GPU driver does not compile what it is asked for, against a gateway of the test. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runAgent } from "../src/agent/loop.js";
import type { AgentEvent } from "../src/agent/messages.js";
import { session } from "../src/agent/session.js";
import { referenceFailedOn } from "../src/agent/targets.js";
import { DeviceOwner, OpenDevice } from "../src/backend/webgpu/device.js";
import { compiled } from "../src/backend/webgpu/pipeline-queue.js";
import type { Program } from "../src/backend/webgpu/program.js";
import { KernelZooError } from "../src/engine/error.js";
import { sha256Hex } from "../src/engine/sha256.js";
import { Failures } from "../src/gateway/failures.js";
import { httpGateway } from "../src/gateway/gateway.js";
import type { FinalAnswer } from "../src/gateway/request.js";
import { cachedPrograms, type Keep, keptPromises } from "../src/measurer/kernel-cache.js";
import { turns } from "../src/measurer/turns.js";
import { gpuInstrument } from "../src/measurer/webgpu/instrument.js";
import { gate } from "../src/timing/gate.js";
import type { FailureReport, KernelWire, Lease, LeaseReport } from "../src/wire/types.js";
import { tinyKernel, tinyLease } from "./kernels.js";

/** Longer than the 100 ms for which a rejection waits for the news of a lost device. */
const LIMIT_MS = 300;
const GPU_CLASS = "0123456789abcdef:r102-1:webgpu";
/** A kernel that compiles nowhere, and is no concern of the driver. */
const REJECTED = "d";
const hash = (digit: string): string => digit.repeat(64);

function device(): OpenDevice {
  const lost = new Promise<GPUDeviceLostInfo>(() => undefined);
  const made = { features: new Set<string>(), limits: {}, lost, destroy: () => undefined };
  return new OpenDevice(made as unknown as GPUDevice);
}

const kernel = (digit: string): KernelWire => ({
  ...tinyKernel("add", 4),
  candidate: digit.repeat(32),
  sha256: hash(digit),
  target: "webgpu",
});

const lease = (reference: string, candidates: readonly string[]): Lease => ({
  ...tinyLease(candidates.map(kernel)),
  reference: kernel(reference),
});

interface Told {
  readonly failures: readonly FailureReport[];
  readonly measured: readonly (readonly [string, string])[];
  readonly events: readonly AgentEvent[];
}

/** Runs an agent on `leases`. The pipeline of `hanging` comes only once a failure was reported. */
async function play(leases: readonly Lease[], hanging: string): Promise<Told> {
  const stop = new AbortController();
  const [failures, measured, events]: [FailureReport[], [string, string][], AgentEvent[]] = [
    [],
    [],
    [],
  ];
  let returned: () => void = () => undefined;
  const driver = new Promise<never>((_, reject) => {
    returned = () => reject(new KernelZooError("compile", "too late"));
  });
  const waiting = [...leases];
  globalThis.fetch = async (url, init) => {
    const { pathname } = url as URL;
    const body = JSON.parse(String(init?.body));
    if (pathname === "/v1/failures") {
      failures.push(body as FailureReport);
      returned();
    }
    if (pathname.endsWith("/measurements")) {
      for (const each of (body as LeaseReport).measurements)
        measured.push([each.candidate, each.outcome]);
    }
    if (pathname !== "/v1/leases") return Response.json({});
    const next = waiting.shift();
    if (next === undefined) stop.abort(new Error("end of the script"));
    return next === undefined ? new Response(null, { status: 204 }) : Response.json(next);
  };
  const gateway = httpGateway(new URL("http://zoo.test"), null, new AbortController().signal);
  const told = new Failures((report) => void gateway.reportFailure(report));
  const devices = new Map<OpenDevice, Keep<Program>>();
  const load = (open: OpenDevice, { sha256 }: KernelWire) => {
    const keep = devices.get(open) ?? keptPromises<Program>(32);
    devices.set(open, keep);
    const make = async (): Promise<Program> => {
      if (sha256 === hash(hanging)) return driver;
      if (sha256 === hash(REJECTED)) throw new KernelZooError("validate", "the browser rejects it");
      return {} as Program;
    };
    return keep(sha256, () => compiled(open, make, LIMIT_MS));
  };
  const given = { identity: "i", device_id: "d", device_class: GPU_CLASS, attestation: [] };
  await runAgent(
    [
      async () => ({
        target: "webgpu",
        workloads: null,
        gateway,
        session: session(async () => ({ ...given, token: "t", expires_in_s: 900 })),
        instrument: gpuInstrument(new DeviceOwner(async () => device()), load, {
          referenceFailed: referenceFailedOn({ failures: told }, GPU_CLASS),
        }),
        withTurn: turns(undefined, undefined),
        gate: gate(),
        emit: (event) => void events.push(event),
        retried: async <T>(request: () => Promise<unknown>) => (await request()) as FinalAnswer<T>,
        sleep: async () => undefined,
        inTokens: async () => null,
        sinceOpenMs: () => 0,
      }),
    ],
    stop.signal,
  );
  return { failures, measured, events };
}

test("kernels of one text are compiled once, each with its own numbers of workgroups", async () => {
  const text = new TextEncoder().encode("fn main() {}");
  globalThis.fetch = async () => new Response(text);
  let pipelines = 0;
  const made = {
    features: new Set<string>(),
    limits: {},
    lost: new Promise(() => undefined),
    pushErrorScope: () => undefined,
    popErrorScope: async () => null,
    createBindGroupLayout: () => ({}),
    createPipelineLayout: () => ({}),
    createShaderModule: () => ({}),
    createComputePipelineAsync: async () => ++pipelines,
  };
  const open = new OpenDevice(made as unknown as GPUDevice);
  const load = cachedPrograms(new URL("http://zoo.test"), new AbortController().signal);
  const of = (workgroups: number): KernelWire => ({
    ...kernel("a"),
    sha256: sha256Hex(text),
    requires: [],
    dispatches: [{ entry: "main", workgroups, threads: 32 }],
  });
  const loaded = [await load(open, of(1)), await load(open, of(8))];
  const workgroups = loaded.map((each) => each.kernel.dispatches[0]?.workgroups);
  assert.deepEqual([pipelines, workgroups], [1, [1, 8]]);
});

test("a reference that the driver never compiles is reported once, and the next lease is measured", async () => {
  const { failures, measured, events } = await play([lease("a", ["b"]), lease("c", ["d"])], "a");
  assert.deepEqual(failures, [
    {
      workload: "add:f32:n1000",
      device_class: GPU_CLASS,
      artifact: hash("a"),
      stage: "compile",
      detail: "The GPU's driver did not compile this kernel within 0.3 s.",
    },
  ]);
  assert.deepEqual(measured, [["d".repeat(32), "validate"]]);
  assert.ok(!events.some(({ type }) => type === "stuck"), "the GPU is asked again");
});

test("a reference that is a candidate as well is reported as a measurement and not twice", async () => {
  const { failures, measured } = await play([lease("a", ["a"])], "a");
  assert.deepEqual(failures, []);
  assert.deepEqual(measured, [["a".repeat(32), "compile"]]);
});
