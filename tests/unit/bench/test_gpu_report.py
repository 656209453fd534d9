"""A WebGPU page's answer is reported, and a page is given its job."""

import json
from dataclasses import replace as changed
from pathlib import Path

import msgspec
import pytest

from bench.gpu import site as gpu_site
from bench.gpu.answer import Adapter, GpuAnswer, GpuContest, GpuResult, GpuScreened
from bench.gpu.cases import GPU_CASES
from bench.gpu.elsewhere import parsed
from bench.gpu.job import ON_GPU, GpuSpace, job
from bench.gpu.report import gpu_report
from bench.gpu.standings import OURS, gpu_standings, space_figures
from bench.report import CannotMeasure, Claim
from kernelzoo.domain.gpu import ANY_GPU

K0 = next(case for case in GPU_CASES if case.name == "K0")
TOLERANCE = 1e-3


def result(
    name: str,
    kernel_us: float,
    call_us: float | None = None,
    *,
    batched_us: float | None = None,
    difference: float | None = 0.0,
) -> GpuResult:
    """The middle one of three rounds, as told; a limit has no calls."""
    call_ns = () if call_us is None else (900.0 * call_us, 1e3 * call_us, 2e3 * call_us)
    return GpuResult(
        name=name,
        flops=K0.workload.flops,
        bytes=0,
        dispatches=("main",),
        profiled_ns=None,
        difference=difference,
        kernel_ns=(900 * kernel_us, 1e3 * kernel_us, 2e3 * kernel_us),
        call_ns=call_ns,
        batched_ns=() if batched_us is None else (1e3 * batched_us,),
    )


def screened(*times: float | None) -> tuple[GpuScreened, ...]:
    return tuple(
        GpuScreened(
            candidate=f"c{i}",
            config=f"tile={i}",
            relative_time=time,
            failure="" if time is not None else "no pipeline",
            calls=0 if time is None else 400,
            samples_ns=() if time is None else (1e4 * time,),
            reference_ns=() if time is None else (1e4,),
        )
        for i, time in enumerate(times)
    )


def answer(*results: GpuResult, architecture: str = "", failures: dict[str, str]) -> GpuAnswer:
    contest = GpuContest(
        case="K0",
        workload=K0.workload.key,
        tolerance=TOLERANCE,
        compile_ms=8.0,
        screened=screened(0.5, 0.25, None),
        results=results,
        failures=failures,
    )
    adapter = Adapter(
        vendor="google" if architecture else "nvidia",
        architecture=architecture,
        subgroup_min_size=32,
        subgroup_max_size=32,
        features=("subgroups", "timestamp-query"),
        limits={"maxComputeInvocationsPerWorkgroup": 1024.0},
    )
    return GpuAnswer(
        date="2026-11-20T14:00:00.000Z",
        browser="Mozilla/5.0 (X11; Linux x86_64) (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537",
        adapter=adapter,
        peers={"onnxruntime_web": "1.30.0"},
        contests=(contest,),
    )


FIELD = (
    result("tfjs", 30, 40),
    result("ort", 20, 250),
    result("c0", 12, 15),
    result("c1", 8, 16, batched_us=10),
    result("limit-f32", 6, difference=None),
)


def claims(found: GpuAnswer) -> dict[str, Claim]:
    return {claim.what: claim for claim in gpu_report(found, {}).claims}


def test_kernels_are_compared_with_kernels_and_calls_with_calls() -> None:
    found = claims(answer(*FIELD, failures={}))
    assert found["K0: kernel, faster than the better"].value == pytest.approx(20 / 8)
    assert found["K0: call, faster than the better"].value == pytest.approx(40 / 10)


def test_ours_is_the_finalist_whose_kernel_is_fastest() -> None:
    held = gpu_standings(answer(*FIELD, failures={}).contests[0])
    assert held.found[OURS].config == "tile=1"
    assert set(held.found) == {OURS, "tfjs", "ort", "limit-f32"}
    assert held.limit_gflops == pytest.approx(K0.workload.flops / 5.4e3)


def test_a_kernel_whose_output_is_wrong_is_not_ours_and_breaks_a_claim() -> None:
    wrong = msgspec.structs.replace(FIELD[3], difference=float("nan"))
    found = answer(*FIELD[:3], wrong, FIELD[4], failures={})
    assert gpu_standings(found.contests[0]).found[OURS].config == "tile=0"
    assert not claims(found)["K0: outputs that are wrong"].ok


def test_rows_have_the_same_columns_and_say_what_failed() -> None:
    report = gpu_report(answer(*FIELD[:2], failures={"ours": "device lost"}), {"gpu": "some"})
    assert len({tuple(row) for row in report.rows}) == 1
    assert [(row["what"], row["note"]) for row in report.rows][-2:] == [
        ("ours", "device lost"),
        ("candidate", "tile=2: no pipeline"),
    ]
    assert report.machine["gpu"] == "some"
    assert json.loads(report.as_json())["machine"]["onnxruntime_web"] == "1.30.0"


def test_an_adapter_that_is_a_cpu_is_held_to_twice_the_peers() -> None:
    found = claims(answer(*FIELD, architecture="swiftshader", failures={}))
    assert found["K0: kernel, faster than the better"].reach == "≥ 2"


def test_the_first_forty_of_a_space_are_held_against_all() -> None:
    figures = space_figures(screened(*[1.0] * 39, None, 0.5))
    assert figures is not None
    assert (figures.tried, figures.failed) == (41, 1)
    assert figures.first_share == pytest.approx(0.5)
    assert space_figures(screened(None)) is None


def test_an_answer_reads_as_the_page_writes_it_and_anything_else_is_refused() -> None:
    found = answer(*FIELD, failures={})
    assert parsed(msgspec.json.encode(found), GpuAnswer) == found
    assert b'"relativeTime"' in msgspec.json.encode(found)
    with pytest.raises(CannotMeasure, match="no answer"):
        parsed(b'{"rows": []}', GpuAnswer)


@pytest.fixture(scope="module")
def space() -> GpuSpace:
    return GpuSpace.of(K0, ANY_GPU)


def test_a_job_names_every_candidate_by_an_address_below_the_page(space: GpuSpace) -> None:
    case = job([space], ON_GPU).cases[0]
    urls = {kernel.url for kernel in (case.lease.reference, *case.lease.candidates)}
    # The client reads addresses as below the zoo's own, here the page's.
    assert urls == {f"/{path}" for path in space.artifacts}
    assert set(case.configs) == {kernel.candidate for kernel in case.lease.candidates}
    assert '"readsOnce":null' in job([space], ON_GPU).model_dump_json(by_alias=True)


def test_a_folder_too_large_to_send_about_is_not_written(tmp_path: Path) -> None:
    gpu_site.write(tmp_path / "site", {"artifacts/a.wgsl": b"code", "index.html": b"page"})
    assert (tmp_path / "site" / "artifacts" / "a.wgsl").read_bytes() == b"code"
    with pytest.raises(CannotMeasure, match="fewer cases"):
        gpu_site.write(tmp_path / "large", {"a": bytes(gpu_site.MOST_BYTES + 1)})
    assert not (tmp_path / "large").exists()


def test_a_page_that_was_not_built_is_named(
    space: GpuSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_site, "FILES", {"webgpu.js": tmp_path / "webgpu.js"})
    with pytest.raises(CannotMeasure, match=r"webgpu\.js is missing"):
        gpu_site.files([space], changed(ON_GPU, most_rounds=1))
