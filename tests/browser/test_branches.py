"""Plans of a merged decoder, of which a feed chooses one."""

from collections.abc import Iterator
from json import dumps, loads
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from playwright.sync_api import Browser

from cli.models.dimensions import parse_constants, parse_dimensions, plan_choices
from fixtures.model_site import Files, SiteKernels, write_model
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload, resolved
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import plan_graphs
from services.tuner.schedules.registry import lite_space
from tests.browser.model_host import CLASS, Handler, Host, close, hosting, page_elsewhere, script
from tests.browser.model_plans import evaluated_programs
from tests.unit.graph.merged_decoders import merged_decoder
from tests.unit.graph.models import drawn, written
from tests.unit.graph.test_deciding_inputs import OPTIMUM, OPTIMUM_FEEDS, merged

BRANCHES = parse_constants(("use_cache_branch=true,false",))
MODELS = {
    "tiny": (merged, plan_choices(parse_dimensions(("S=2", "P=3")), BRANCHES)),
    "optimum": (merged_decoder, plan_choices((OPTIMUM,), BRANCHES)),
}
FEEDS = {"x": drawn((1, 2, 8)), "past": drawn((1, 3, 8), 1)}


class BranchHandler(Handler):
    """A static host that answers with the plan of the dimension that is asked for."""

    def translate_path(self, path: str) -> str:
        address, _, asked = path.partition("?")
        if address.startswith("/v1/models/decoder/"):
            branch = "prompt" if "use_cache_branch=0" in asked else "step"
            return str(self.host.folder / f"decoder-{branch}.json")
        return super().translate_path(path)


def first_of(workload: Workload) -> SiteKernels:
    space = lite_space(workload, TargetKind.WASM)
    portable = next(each for each in space if "relaxed-simd" not in each.requires)
    return SiteKernels(candidate=portable, fallback=portable)


def _rename(document: Path, branch: str) -> None:
    """Gives the golden outputs and the module of one of two plans names of their own."""
    answer = loads(document.read_text())
    for file in ("golden", "module"):
        old = document.with_name(answer[file]["url"].removeprefix("/"))
        answer[file]["url"] = f"/{branch}{old.suffix}"
        old.rename(old.with_stem(branch))
    document.rename(document.with_stem(f"decoder-{branch}")).write_text(dumps(answer))


@pytest.fixture(params=["tiny", "optimum"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    onnx, choices = MODELS[request.param]
    file = written(tmp_path, onnx())
    graphs = [import_model(file, each.dimensions, constants=each.constants) for each in choices]
    model = plan_graphs(graphs, [each.named for each in choices], "decoder")
    programs = {each.key: each for each in evaluated_programs(model.workloads)}
    weights = b"".join(model.weights.blocks())
    for branch, plan, golden in zip(("step", "prompt"), model.plans, model.golden, strict=True):
        workloads = resolved(plan.kernels, programs).values()
        kernels = {each.key: first_of(each) for each in workloads}
        files = Files(weights=weights, golden=golden)
        _rename(write_model(tmp_path, CLASS, plan, files, kernels), branch)
    # As a gateway has files that are named by their hashes.
    made.cache_control = "public, max-age=3600, immutable"
    with hosting(made, BranchHandler):
        yield made


RUN = """
  const zoo = await open();
  const model = await zoo.model("decoder");
  const [x, past] = [Float32Array.from(feeds.x), Float32Array.from(feeds.past)];
  const plain = (outputs) =>
    Object.fromEntries(Object.entries(outputs).map(([name, data]) => [name, [...data]]));
  const run = async (own) => plain(await model.run({ x, past, ...own }));
  const found = [];
  const running = run({ use_cache_branch: [false] });
  const kept = [x.slice(), past.slice()];
  x.fill(0);
  found.push(await running);
  x.set(kept[0]);
  found.push(await run({ use_cache_branch: [true] }));
  found.push(await run({ use_cache_branch: { data: new Uint8Array([0]), shape: [1] } }));
  found.push(plain(await model.run({ x, past })));
  const { dimensions } = model.plan;
  const refused = [
    await refusal(() => run({ use_cache_branch: [0.5] })),
    await refusal(() => run({ use_cache: [true] })),
    await refusal(() => model.run({ x, use_cache_branch: [true] })),
  ];
  const file = await zoo.model(`${host}/decoder-step.json`);
  refused.push(await refusal(() => file.run({ x, past, use_cache_branch: [false] })));
  await file.dispose();
  await model.dispose();
  refused.push(await refusal(() => run({ use_cache_branch: [false] })));
  zoo.dispose();
  return { found, dimensions, refused };
"""


@pytest.mark.parametrize("host", ["tiny"], indirect=True)
def test_a_feed_chooses_the_branch_of_a_merged_decoder(lone_browser: Browser, host: Host) -> None:
    feeds = {name: array.ravel().tolist() for name, array in FEEDS.items()}
    with page_elsewhere(lone_browser) as page:
        told = page.evaluate(script(RUN), [host.url, feeds])
    reference = ReferenceEvaluator(merged())
    branches = (False, True, False, True)
    for made, taken in zip(told["found"], branches, strict=True):
        wanted = reference.run(None, {**FEEDS, "use_cache_branch": np.array([taken])})
        assert all(map(close, (made["logits"], made["present"]), wanted))
    assert told["dimensions"] == {"S": 2, "P": 3, "use_cache_branch": 1}
    fraction, unknown, missing, file, disposed = told["refused"]
    assert fraction.startswith("run: use_cache_branch chooses a plan of the model: give one whole")
    assert "has no input use_cache" in unknown
    assert "Input past is missing" in missing
    assert "This file is no plan for" in file
    assert "disposed" in disposed
    assert len([path for path in host.sent if ".weights" in path]) == 1, "both plans share them"


RUN_OPTIMUM = """
  const zoo = await open();
  const model = await zoo.model("decoder");
  const whole = (entries) => BigInt64Array.from(entries, BigInt);
  const given = Object.fromEntries(
    Object.entries(feeds).map(([name, entries]) => [
      name,
      /ids|mask/.test(name) ? whole(entries) : Float32Array.from(entries),
    ]),
  );
  const run = async (branch) => {
    const outputs = await model.run({ ...given, use_cache_branch: [branch] });
    return Object.fromEntries(Object.entries(outputs).map(([name, data]) => [name, [...data]]));
  };
  const found = [await run(false), await run(true), await run(false)];
  await model.dispose();
  zoo.dispose();
  return found;
"""


@pytest.mark.parametrize("host", ["optimum"], indirect=True)
def test_both_branches_of_a_decoder_that_optimum_merged_run_as_in_onnxruntime(
    lone_browser: Browser, host: Host
) -> None:
    feeds = {name: array.ravel().tolist() for name, array in OPTIMUM_FEEDS.items()}
    with page_elsewhere(lone_browser) as page:
        found = page.evaluate(script(RUN_OPTIMUM), [host.url, feeds])
    session = onnxruntime.InferenceSession(host.folder / "model.onnx")
    names = [output.name for output in session.get_outputs()]
    for outputs, taken in zip(found, (False, True, False), strict=True):
        told = {"use_cache_branch": np.array([taken])}
        wanted = dict(zip(names, session.run(None, {**OPTIMUM_FEEDS, **told}), strict=True))
        present = {name: value for name, value in wanted.items() if value.size}
        assert outputs.keys() == present.keys()
        assert all(close(outputs[name], value) for name, value in present.items())
    assert len([path for path in host.sent if ".weights" in path]) == 1, "both plans share them"
