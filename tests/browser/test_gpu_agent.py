"""WebGPU from end to end on a software adapter: the agent measures, the SDK runs and falls back."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import MEASURED, TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.sites import site
from tests.running import eventually, rows
from workers.fleet.chromium import launched_chromium
from workers.fleet.gpu import GpuChoice, gpu_flags

KEY = "matmul:f32:m24k20n36"

USE = """async ([url, key, backend, act]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url, { backend });
  const kernel = await zoo.kernel(key);
  const sine = (_, i) => Math.sin(i);
  const cosine = (_, i) => Math.cos(i);
  const [m, k, n] = [24, 20, 36];
  const a = Float32Array.from({ length: m * k }, sine);
  const b = Float32Array.from({ length: k * n }, cosine);
  const wrong = (output) => {
    let worst = 0;
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
        worst = Math.max(worst, Math.abs(sum - output[i * n + j]));
      }
    }
    return worst;
  };
  const acts = {
    async run() {
      return { error: wrong(await kernel.runAsync({ a, b })), sync: wrong(kernel.run()) };
    },
    async weightsStay() {
      await kernel.runAsync({ a, b });
      a.fill(1);
      return { error: wrong(await kernel.runAsync({ a })) };
    },
    async views() {
      kernel.inputs.a.set(a);
      kernel.inputs.b.set(b);
      await kernel.runAsync();
      kernel.inputs.a.fill(2);
      a.fill(2);
      return { error: wrong(await kernel.runAsync()) };
    },
    async resident() {
      const { gpu } = kernel;
      gpu.write("a", a);
      gpu.write("b", b);
      for (let run = 0; run < 10; run++) gpu.submit();
      const submitted = wrong(await gpu.read());
      gpu.write("a", a.fill(3));
      const encoder = gpu.device.createCommandEncoder();
      gpu.encode(encoder);
      gpu.device.queue.submit([encoder.finish()]);
      return { error: Math.max(submitted, wrong(await gpu.read())) };
    },
    async lost() {
      await kernel.runAsync({ a, b });
      kernel.gpu.device.destroy();
      const error = wrong(await kernel.runAsync({ a }));
      return { error, gpu: kernel.gpu };
    },
    async ownDevice() {
      const adapter = await navigator.gpu.requestAdapter();
      const device = await adapter.requestDevice();
      const own = await KernelZoo.open(url, { backend: "webgpu", device });
      const first = await own.kernel(key);
      const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
      const shared = device.createBuffer({ size: 4 * m * k, usage });
      const second = await own.kernel(key, { buffers: { a: shared } });
      device.queue.writeBuffer(shared, 0, a);
      second.gpu.write("b", b);
      second.gpu.submit();
      const error = wrong(await second.gpu.read());
      own.dispose();
      const alive = await Promise.race([device.lost, Promise.resolve("alive")]);
      return { error, alive, same: first.gpu.device === device };
    },
    async verify() {
      const { ok, maxError } = await kernel.verify();
      return { ok, maxError };
    },
  };
  const answer = await acts[act]();
  const { info, shapes } = kernel;
  return { ...answer, info, shapes, gpuDeviceClass: zoo.gpuDeviceClass };
}"""


CONSTANT_KEY = f"{KEY}:constant=b"
I8_KEY = "matmul_i8+scales:f32:m3k19n17:constant=b"
GATHER_KEY = "gather:f32:m9k20n13"

TYPED = """async ([url, key, backend, constant, values]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url, { backend });
  const kernel = await zoo.kernel(key, { constant });
  await kernel.runAsync(values);
  const output = [...(await kernel.runAsync(values))];
  const sync = [...kernel.run(values)];
  const verified = await kernel.verify();
  const { info } = kernel;
  zoo.dispose();
  return { output, sync, verified, info };
}"""


@pytest.fixture(scope="module")
def gpu_browser(stack: Stack) -> Iterator[Browser]:  # noqa: ARG001
    """Closed before its stack."""
    with launched_chromium(*gpu_flags(GpuChoice.SOFTWARE)) as launched:
        yield launched


@pytest.fixture(scope="module", autouse=True)
def jobs(stack: Stack, gpu_browser: Browser) -> None:
    """Both targets are measured by one agent, wasm first."""
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for target in MEASURED:
            gateway.register(Workload.parse(KEY), target)
    page = gpu_browser.new_page()
    page.goto(f"{stack.url}/agent?start=1")
    eventually(lambda: final_targets(page) == ["wasm", "webgpu"], "final ballots", within_s=90)
    page.close()


def final_targets(page: Page) -> list[str]:
    events = page.evaluate("kernelzooAgent.events")
    return [each["target"] for each in events if each["type"] == "ballot" and each["final"]]


@pytest.fixture(scope="module")
def page(gpu_browser: Browser) -> Iterator[Page]:
    """A page of another origin, not isolated."""
    with site({}) as address:
        opened = gpu_browser.new_page()
        opened.goto(address)
        yield opened


def used(stack: Stack, page: Page, backend: str, act: str) -> dict[str, Any]:
    answer: dict[str, Any] = page.evaluate(USE, [stack.url, KEY, backend, act])
    return answer


def test_an_agent_measures_every_candidate_of_both_targets_rightly(stack: Stack) -> None:
    outcomes = (
        "SELECT DISTINCT c.target, m.outcome, m.verdict FROM measurement m "
        "JOIN candidate c USING (candidate_id) ORDER BY 1"
    )
    verified = [("wasm", "ok", "verified"), ("webgpu", "ok", "verified")]
    eventually(lambda: rows(stack, outcomes) == verified, "a verified measurement of each")
    assert rows(stack, "SELECT count(DISTINCT identity_id) FROM agent_session") == [(1,)]
    classes = rows(stack, "SELECT DISTINCT device_class FROM agent_session ORDER BY 1")
    ids = {text.split(":")[0] for (text,) in classes}
    assert len(classes) == 2
    assert len(ids) == 1, "one device, two classes"


def test_the_sdk_runs_the_winner_on_webgpu(stack: Stack, page: Page) -> None:
    confirmed = "SELECT count(*) FROM zoo_entry WHERE state = 'confirmed'"
    eventually(lambda: rows(stack, confirmed) == [(2,)], "an entry for each target")
    found = used(stack, page, "webgpu", "run")
    assert found["error"] < 1e-4
    assert found["sync"] < 1e-4
    info, own = found["info"], found["gpuDeviceClass"]
    assert (own,) in rows(stack, "SELECT device_class FROM agent_session"), "two probes agree"
    assert (info["backend"], info["backendReason"]) == ("webgpu", None)
    served = (info["level"], info["state"], info["fallbackReason"])
    assert served == ("exact", "confirmed", None)
    assert found["shapes"] == {"a": [24, 20], "b": [20, 36], "c": [24, 36]}


@pytest.mark.parametrize("act", ["weightsStay", "views", "resident"])
def test_tensors_may_stay_on_the_gpu(stack: Stack, page: Page, act: str) -> None:
    assert used(stack, page, "webgpu", act)["error"] < 1e-4


def test_a_page_may_share_its_device_and_its_buffers(stack: Stack, page: Page) -> None:
    found = used(stack, page, "webgpu", "ownDevice")
    assert found["error"] < 1e-4
    assert found["same"] is True
    assert found["alive"] == "alive", "the zoo took the page's device with it"


def test_a_kernel_on_webgpu_is_compared_with_the_default_of_wasm(stack: Stack, page: Page) -> None:
    found = used(stack, page, "webgpu", "verify")
    assert found["ok"] is True


def compile_for(stack: Stack, key: str, *targets: TargetKind) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for target in targets:
            job = gateway.register(Workload.parse(key), target).job
            eventually(partial(compiled, gateway, job), f"compiling {key} for {target}")


def compiled(gateway: GatewayClient, job: int) -> bool:
    return gateway.job(job).compiled > 0


def test_constant_weights_of_eight_bits_stay_on_the_gpu(stack: Stack, page: Page) -> None:
    compile_for(stack, I8_KEY, *MEASURED)
    m, k, n = Workload.parse(I8_KEY).extents
    a = [(i % 5) / 4 for i in range(m * k)]
    b = [(37 * i) % 256 - 128 for i in range(k * n)]
    scales = [(i % 3) / 8 for i in range(n)]
    plain = I8_KEY.removesuffix(":constant=b")
    given = [stack.url, plain, "webgpu", {"b": b}, {"a": a, "scales": scales}]
    found = page.evaluate(TYPED, given)
    wanted = [
        scales[j] * sum(a[i * k + p] * b[p * n + j] for p in range(k))
        for i in range(m)
        for j in range(n)
    ]
    assert (found["info"]["workload"], found["info"]["backend"]) == (I8_KEY, "webgpu")
    assert found["output"] == pytest.approx(wanted, abs=1e-3)
    assert found["sync"] == pytest.approx(wanted, abs=1e-3)
    assert found["verified"]["ok"] is True


def test_rows_are_gathered_on_the_gpu(stack: Stack, page: Page) -> None:
    compile_for(stack, GATHER_KEY, *MEASURED)
    m, k, n = Workload.parse(GATHER_KEY).extents
    indices = [(7 * i) % k for i in range(m)]
    table = [float(i) for i in range(k * n)]
    values = {"a": table, "indices": indices}
    found = page.evaluate(TYPED, [stack.url, GATHER_KEY, "webgpu", {}, values])
    assert found["info"]["backend"] == "webgpu"
    assert found["output"] == [table[row * n + column] for row in indices for column in range(n)]
    assert found["verified"]["ok"] is True


def test_weights_are_constant_on_webgpu_where_only_wasm_was_tuned_for_that(
    stack: Stack, page: Page
) -> None:
    compile_for(stack, CONSTANT_KEY, TargetKind.WASM)
    m, k, n = Workload.parse(KEY).extents
    given = ({"b": [1.0] * (k * n)}, {"a": [0.5] * (m * k)})
    for backend, workload in (("webgpu", KEY), ("wasm", CONSTANT_KEY)):
        found = page.evaluate(TYPED, [stack.url, KEY, backend, *given])
        assert (found["info"]["workload"], found["info"]["backend"]) == (workload, backend)
        assert found["output"] == found["sync"] == [k / 2] * (m * n)


def test_a_lost_device_is_followed_by_webassembly_with_the_reason(stack: Stack, page: Page) -> None:
    found = used(stack, page, "webgpu", "lost")
    assert found["error"] < 1e-4
    assert found["gpu"] is None
    assert found["info"]["backend"] == "wasm"
    assert "lost" in found["info"]["backendReason"]


def test_the_advice_is_followed_unless_the_page_says_otherwise(stack: Stack, page: Page) -> None:
    info = used(stack, page, "auto", "run")["info"]
    assert info["backend"] == info["advice"]["target"]
    info = used(stack, page, "wasm", "run")["info"]
    assert (info["backend"], info["backendReason"]) == ("wasm", None)


def test_without_webgpu_it_is_webassembly_with_the_reason(
    stack: Stack, gpu_browser: Browser
) -> None:
    plain = gpu_browser.new_context()
    plain.add_init_script("delete Navigator.prototype.gpu")
    with site({}) as address:
        page = plain.new_page()
        page.goto(address)
        found = used(stack, page, "webgpu", "run")
    plain.close()
    assert found["error"] < 1e-4
    assert found["info"]["backend"] == "wasm"
    assert "no WebGPU" in found["info"]["backendReason"]
    assert found["gpuDeviceClass"] is None


BEFORE = """async ([url, key]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url, { backend: "webgpu" });
  const kernel = await zoo.kernel(key);
  const inputs = { a: new Array(24 * 20).fill(2), b: new Array(20 * 36).fill(3) };
  await kernel.runAsync(inputs);
  Object.assign(globalThis, { zoo, kernel, inputs, asked: 0 });
  const count = (target, name) => {
    const real = target[name];
    target[name] = function (...given) {
      globalThis.asked += 1;
      return real.apply(this, given);
    };
  };
  for (const name of ["createShaderModule", "createBuffer"]) count(GPUDevice.prototype, name);
  count(GPU.prototype, "requestAdapter");
  return { backend: kernel.info.backend, failure: zoo.gpuFailure };
}"""

# No driver here hangs on demand: a pipeline that never comes is what one looks like to a page.
HANG = """() => {
  GPUDevice.prototype.createComputePipelineAsync = () => new Promise(() => undefined);
  const later = globalThis.setTimeout;
  globalThis.setTimeout = (work, ms, ...given) => later(work, Math.min(ms, 500), ...given);
}"""

AFTER = """async (key) => {
  const { zoo, kernel, inputs } = globalThis;
  const first = await zoo.kernel(key, { use: "fallback" });
  const asked = globalThis.asked;
  const next = await zoo.kernel(key, { use: "fallback" });
  const told = [first, next, kernel].map((each) => each.runAsync(inputs).then((c) => c[0]));
  return {
    outputs: await Promise.all(told),
    backends: [first, next, kernel].map(({ info }) => info.backend),
    reasons: [first, next, kernel].map(({ info }) => info.backendReason),
    failure: zoo.gpuFailure,
    asked: globalThis.asked - asked,
  };
}"""

REOPENED = """async ([url, key]) => {
  let asked = 0;
  const real = GPU.prototype.requestAdapter;
  GPU.prototype.requestAdapter = function (...given) {
    // The description of the hardware asks without a preference; it goes on when nobody answers.
    asked += given[0]?.powerPreference === "high-performance";
    return real.apply(this, given);
  };
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url, { backend: "webgpu" });
  const { info } = await zoo.kernel(key);
  return { backend: info.backend, reason: info.backendReason, failure: zoo.gpuFailure, asked };
}"""


@pytest.mark.parametrize("death", ["hang", "crash"])
def test_a_gpu_that_died_is_not_tried_again_in_its_tab_and_the_page_is_told_once(
    stack: Stack, gpu_browser: Browser, death: str
) -> None:
    """The crash comes last: the browser starts another GPU process after it."""
    tab = gpu_browser.new_context()
    with site({}) as address:
        page = tab.new_page()
        warnings: list[str] = []
        page.on("console", lambda line: warnings.append(line.text))
        page.goto(address)
        before = page.evaluate(BEFORE, [stack.url, KEY])
        assert before == {"backend": "webgpu", "failure": None}
        if death == "hang":
            page.evaluate(HANG)
        else:
            gpu_browser.new_browser_cdp_session().send("Browser.crashGpuProcess")
            page.evaluate("kernel.gpu.device.lost.then(() => null)")
        after = page.evaluate(AFTER, KEY)
        page.reload()
        reopened = page.evaluate(REOPENED, [stack.url, KEY])
    tab.close()
    assert after["outputs"] == [120, 120, 120]
    assert after["backends"] == ["wasm", "wasm", "wasm"]
    assert after["reasons"] == [after["failure"]] * 3
    assert ("within" if death == "hang" else "lost") in after["failure"]
    assert after["asked"] == 0, "the GPU was tried again"
    own = [text for text in warnings if text.startswith("kernelzoo: ")]
    assert own == [f"kernelzoo: {after['failure']}"]
    assert reopened == {
        "backend": "wasm",
        "reason": after["failure"],
        "failure": after["failure"],
        "asked": 0,
    }
