"""A page that tunes its model and shares what it measures, with a real gateway."""

from collections.abc import Iterator
from json import loads
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from cli.gateway_client import GatewayClient
from cli.models.sending import ImportedModel, send
from cli.stack.supervisor import Stack
from kernelzoo.domain.plan import Plan
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload
from services.gateway.wire.applications import ApplicationRequest
from tests.browser.language_models import right_tokens, tiny_decoder, workload_of
from tests.browser.model_host import lists
from tests.browser.model_plans import deep
from tests.browser.sites import ISOLATED, site
from tests.running import eventually, rows
from workers.fleet.chromium import launched_chromium
from workers.fleet.gpu import GpuChoice, gpu_flags

NETWORKS = {
    TargetKind.WASM: deep(layers=2),
    TargetKind.WEBGPU: deep("small", layers=2, rows=64, width=64),
}
"""A software adapter takes a second for what a core does in a few milliseconds."""


def application_of(target: TargetKind) -> str:
    return f"shop-{target}"


@pytest.fixture(scope="module")
def browser(stack: Stack) -> Iterator[Browser]:  # noqa: ARG001
    """On a software adapter of WebGPU; closed before its stack."""
    with launched_chromium(*gpu_flags(GpuChoice.SOFTWARE)) as launched:
        yield launched


@pytest.fixture(params=[TargetKind.WASM, pytest.param(TargetKind.WEBGPU, marks=pytest.mark.slow)])
def target(request: pytest.FixtureRequest) -> TargetKind:
    return TargetKind(request.param)


@pytest.fixture
def page(
    stack: Stack, context: BrowserContext, target: TargetKind, tmp_path: Path
) -> Iterator[Page]:
    """A page of a site whose owner has an application, with a model that the zoo has."""
    network = NETWORKS[target]
    weights = tmp_path / "weights.bin"
    weights.write_bytes(network.files.weights)
    model = ImportedModel(
        plans=(network.plan,), golden=(network.files.golden,), weights=weights, programs={}
    )
    with (
        site(ISOLATED) as address,
        GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway,
    ):
        send(
            gateway,
            model,
            source="deep.onnx",
            replace=False,
            weights_url=None,
            told=lambda _: None,
            targets=(target,),
        )
        gateway.create_application(
            ApplicationRequest(name=application_of(target), origins=[address])
        )
        eventually(
            lambda: any(job.compiled > 12 for job in gateway.jobs(network.plan.kernels[0], target)),
            "12 were compiled",
        )
        opened = context.new_page()
        opened.goto(address)
        yield opened


SHARED = """async ([host, application, feeds, backend, name]) => {
  const { KernelZoo } = await import(`${host}/client/sdk.js`);
  const zoo = await KernelZoo.open(host, { backend });
  const model = await zoo.model(name, { tune: "idle", contribute: { application } });
  const x = Float32Array.from(feeds.x);
  const largest = feeds.y.reduce((most, entry) => Math.max(most, Math.abs(entry)), 0);
  let worst = 0;
  const run = async () => {
    const { y } = await model.run({ x });
    y.forEach((entry, i) => (worst = Math.max(worst, Math.abs(entry - feeds.y[i]) / largest)));
    await new Promise((resolve) => setTimeout(resolve, 20));
  };
  const { tuning } = model;
  const sent = () => tuning.sent.filter(({ method }) => method !== "GET");
  const reports = () => sent().filter(({ path }) => path.endsWith("/measurements"));
  for (let i = 0; i < 600 && reports().length < 2; i++) await run();
  const hidden = (holds) => {
    Object.defineProperty(document, "hidden", { configurable: true, value: holds });
    document.dispatchEvent(new Event("visibilitychange"));
  };
  hidden(true);
  for (let i = 0; i < 40; i++) await run();
  const before = tuning.contributed;
  for (let i = 0; i < 20; i++) await run();
  const after = tuning.contributed;
  const { state } = tuning;
  hidden(false);
  for (let i = 0; i < 600 && !sent().some(({ path }) => path === "/v1/ballots"); i++) await run();
  const { contributed, reason } = tuning;
  const shown = { target: model.plan.target, sent: sent(), contributed, reason };
  await model.dispose();
  return { ...shown, before, after, state, worst };
}"""


def test_a_page_that_contributes_measures_for_others_and_shows_what_it_sends(
    page: Page, stack: Stack, target: TargetKind
) -> None:
    network = NETWORKS[target]
    key, name = network.plan.kernels[0], network.plan.model
    feeds = lists({"x": network.feeds["x"], "y": network.outputs["y"]})
    found: dict[str, Any] = page.evaluate(
        SHARED, [stack.url, application_of(target), feeds, target, name]
    )
    assert found["target"] == target
    assert found["worst"] < 1e-4, found["reason"]
    bodies = [(each["path"], loads(each["body"])) for each in found["sent"]]
    asked = [body["workloads"] for path, body in bodies if path == "/v1/leases"]
    assert asked != []
    assert all(each == [key] for each in asked), "of this model alone"
    voted = max(i for i, (path, _) in enumerate(bodies) if path == "/v1/ballots")
    told = {
        line["candidate"]
        for path, body in bodies[:voted]
        if path.endswith("/measurements")
        for line in body["measurements"]
    }
    assert 0 < len(told) <= found["contributed"]
    stored = {name for (name,) in rows(stack, "SELECT candidate_id::text FROM measurement")}
    assert told <= stored, "what it shows is what arrived"
    assert found["state"] != "measuring", "paused, or done already"
    assert found["before"] == found["after"], "and nothing is measured meanwhile"
    assert bodies[voted][1]["workload"] == key


DECODER = "tiny-llama"


def sent_decoder(gateway: GatewayClient, weights: Path) -> Plan:
    """The tiny language model, as `kernelzoo models add` sends it."""
    plan, files = tiny_decoder(DECODER)
    weights.write_bytes(files.weights)
    known = (workload_of(key) for key in plan.kernels)
    programs = {each.key: str(each.program) for each in known if isinstance(each, ProgramWorkload)}
    model = ImportedModel(plans=(plan,), golden=(files.golden,), weights=weights, programs=programs)
    send(
        gateway,
        model,
        source="tiny-llama",
        replace=False,
        weights_url=None,
        told=lambda _: None,
        targets=(TargetKind.WEBGPU,),
    )
    return plan


TOKENS = """async ([host, application, name, prompt]) => {
  const { KernelZoo } = await import(`${host}/client/sdk.js`);
  const zoo = await KernelZoo.open(host, { backend: "webgpu" });
  const open = async () => {
    for (;;) {
      try {
        return await zoo.languageModel(name, { tune: "idle", contribute: { application } });
      } catch (thrown) {
        if (thrown.stage !== "manifest") throw thrown;
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    }
  };
  const llm = await open();
  const { tuning } = llm;
  const found = [];
  const ballots = [];
  const filed = () => {
    for (const { path, body } of tuning.sent) {
      if (path === "/v1/ballots" && !ballots.includes(body)) ballots.push(body);
    }
    return ballots.some((body) => JSON.parse(body).in_tokens);
  };
  for (let i = 0; i < 2400 && !filed(); i++) {
    if (i % 100 === 0) {
      const text = [];
      for await (const token of llm.generate(prompt, { maxTokens: 8 })) text.push(token);
      found.push(text);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const { contributed, reason, state } = tuning;
  const shown = { target: llm.target, contributed, reason, state, sent: [...tuning.sent] };
  await llm.dispose();
  return { ...shown, ballots: ballots.map((body) => JSON.parse(body)), found };
}"""


@pytest.mark.slow
def test_a_page_with_a_language_model_votes_by_what_whole_tokens_take(
    stack: Stack, context: BrowserContext, tmp_path: Path
) -> None:
    prompt = [1, 2, 3]
    with (
        site(ISOLATED) as address,
        GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway,
    ):
        plan = sent_decoder(gateway, tmp_path / "weights.bin")
        gateway.create_application(ApplicationRequest(name="chat", origins=[address]))
        page = context.new_page()
        page.goto(address)
        found: dict[str, Any] = page.evaluate(TOKENS, [stack.url, "chat", DECODER, prompt])
    assert found["target"] == "webgpu"
    assert all(text == right_tokens(prompt, 8) for text in found["found"]), found["reason"]
    assert plan.decoder is not None
    of_token = {plan.kernels[call.kernel] for call in plan.calls[plan.decoder.step :]}
    leases = [loads(each["body"]) for each in found["sent"] if each["path"] == "/v1/leases"]
    assert all(set(lease["workloads"]) <= set(plan.kernels) for lease in leases)
    assert found["contributed"] > 0
    by_tokens = [each for each in found["ballots"] if each["in_tokens"]]
    assert by_tokens != [], (found["state"], found["reason"], found["ballots"])
    assert {each["workload"] for each in by_tokens} <= of_token
    stored = dict(
        rows(stack, "SELECT workload_key, candidate_ids[1]::text FROM ballot WHERE in_tokens")
    )
    for each in by_tokens:
        assert stored[each["workload"]] == each["lines"][0]["candidate"]
