"""The demo fails at some step, and says so."""

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from cli.demo.command import LAST_STAGE
from cli.demo.display import Shown, _speed_up, plain, shared_work, summary
from cli.demo.network import told
from cli.demo.page import (
    FrameworkResult,
    NetworkResult,
    PageFailed,
    PageResult,
    accept,
    accept_network,
    picture_beside,
)
from cli.demo.watch import (
    COMPILE,
    MEASURE,
    STEPS,
    VOTE,
    DemoFailed,
    DemoStep,
    RegisteredJob,
    Sight,
    _Deadline,
    _sights,
    busy_remark,
    hopeless,
    outstanding,
    too_late,
)
from cli.models.tuning import TunedPlan
from cli.stack.place import Place
from cli.stack.supervisor import empty
from cli.tune import why_waiting
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import StackError
from services.gateway.wire.jobs import Job
from workers.fleet.status import AgentStatus, FleetStatus


def _job(**changes: object) -> Job:
    values = {
        "job": 1,
        "workload": "matmul:f32:m384k768n768",
        "target": TargetKind.WASM,
        "space": "",
        "state": "planned",
        "flops": 452_984_832,
        "candidates": 40,
        "compiled": 40,
        "failed": 0,
        "compile_ms_median": 4.2,
        "compile_ms_last": 4.0,
        "measurements": 12,
        "agents": 2,
        "ballots": 1,
        "best_ns": 1e7,
        "entries": 0,
        "final": 0,
        "skipped_by": [],
        "detail": "",
    }
    return Job.model_validate(values | changes)


def _result(**changes: object) -> PageResult:
    values = {
        "workload": "matmul:f32:m384k768n768",
        "level": "exact",
        "votes": 5,
        "manifestMs": 3.5,
        "default_gflops": 20.0,
        "zoo_gflops": 45.0,
        "limit_gflops": 50.0,
        "speedup": 2.25,
        "max_error": 1e-5,
        "same_kernel": False,
        "correct": True,
    }
    return PageResult.model_validate(values | changes)


def test_a_failed_step_is_named_with_the_log_to_read() -> None:
    error = DemoFailed.at(MEASURE, too_late(MEASURE), Path(".kernelzoo/demo/logs/fleet.log"))
    assert str(error) == (
        "demo failed at step 3 (agents measure): no measurement within 30 s; "
        "read .kernelzoo/demo/logs/fleet.log"
    )


def test_a_demo_that_fails_on_a_busy_machine_says_so() -> None:
    assert busy_remark(28.4, 2) == (
        ". 28 programs want the 2 cores of this machine, so that agents wait and their times "
        "differ: run the demo when it is quiet"
    )
    assert busy_remark(8.0, 2) == "", "the demo's own programs"


def test_the_steps_are_numbered_in_their_order() -> None:
    assert [step.number for step in STEPS] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("job", "step"),
    [
        (_job(candidates=0, compiled=0, measurements=0), COMPILE),
        (_job(compiled=39, measurements=3), COMPILE),
        (_job(compiled=38, failed=2, measurements=0), MEASURE),
        (_job(), VOTE),
    ],
)
def test_the_outstanding_step_follows_from_the_job(job: Job, step: DemoStep) -> None:
    assert outstanding(job) is step


def test_a_step_has_its_own_time_from_when_it_is_its_turn() -> None:
    deadline = _Deadline()
    assert deadline.missed(_job(), COMPILE, 0) is None
    assert deadline.missed(_job(), MEASURE, 50) is None
    assert deadline.missed(_job(), MEASURE, 79) is None
    assert deadline.missed(_job(), MEASURE, 81) == "no measurement within 30 s"


def test_the_job_of_a_gpu_model_that_comes_later_has_time_of_its_own() -> None:
    deadline = _Deadline()
    assert deadline.missed(_job(job=1, space="any"), COMPILE, 0) is None
    assert deadline.missed(_job(job=2, space="swiftshader"), COMPILE, 70) is None


def test_waiting_ends_early_when_nothing_can_come_of_it() -> None:
    assert hopeless(_job()) is None
    assert hopeless(_job(state="failed", detail="no space")) == "the job failed: no space"
    assert hopeless(_job(compiled=0, failed=40)) == "all 40 candidates failed to compile"


def test_agents_share_the_space_but_for_its_leaders() -> None:
    assert shared_work(40, agents=0) == shared_work(40, agents=1) == 40
    assert shared_work(40, agents=5) == 40 + 4 * 8
    assert shared_work(3, agents=2) == 6


def test_a_page_must_get_a_hit_with_right_output() -> None:
    assert accept(_result()).share_of_limit == pytest.approx(0.9)
    with pytest.raises(PageFailed, match="'default', not 'exact'"):
        accept(_result(level="default"))
    with pytest.raises(PageFailed, match=r"wrong by up to 0\.5"):
        accept(_result(correct=False, max_error=0.5))


class _Answering:
    """A gateway that has one job."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def jobs(self, _: str, __: TargetKind) -> tuple[Job, ...]:
        return (self._job,)

    def entries(self, _: str) -> tuple[()]:
        return ()


class _Quiet:
    """A stack of which there is nothing to say."""

    place = Place.at(Path("nowhere"))

    def tend(self) -> tuple[()]:
        return ()


def _text_of_summary(
    *results: PageResult,
    first_timed_ms: float = 900,
    job: Job,
    network: NetworkResult | None = None,
) -> str:
    agent = AgentStatus(agent="agent-1", state="idle", first_timed_ms=first_timed_ms)
    fleet = FleetStatus(url="http://h", agents=(agent,))
    sight = Sight(job=job, fleet=fleet, winners=(), elapsed_s=1)
    last = replace(sight, job=job.model_copy(update={"workload": LAST_STAGE.key}))
    console = Console(width=72)
    with console.capture() as told:
        sights = (sight, last)[: len(results)]
        shown = Shown(sights=sights, results=results, network=network)
        console.print(summary(shown, elapsed_s=104.4))
    return told.get()


def test_seconds_are_told_of_a_workload_from_when_it_was_registered() -> None:
    gateway = _Answering(_job(workload=LAST_STAGE.key))
    registered = RegisteredJob(job=_job(workload=LAST_STAGE.key), at_s=time.monotonic() - 40)
    sight = next(_sights(_Quiet(), gateway, registered))  # type: ignore[arg-type]
    assert 40 <= sight.elapsed_s < 80
    assert plain(sight).startswith(f"{LAST_STAGE.key}, ")


def test_a_late_first_candidate_is_told_and_does_not_fail_the_demo() -> None:
    late = _text_of_summary(_result(), first_timed_ms=1600, job=_job())
    assert "1600 ms after its page opened, missed 1500 ms" in late
    assert "missed" not in _text_of_summary(_result(), job=_job())


EXTENTS = ("b1h7w7c512o512 ", "kh3kw3stride1pad1 ")


def test_the_summary_fits_a_terminal_and_names_what_the_zoo_wins_over_each_framework() -> None:
    runtime = FrameworkResult(name="onnxruntime-web 1.30.0", gflops=20, speedup=2.25, difference=0)
    told = _text_of_summary(_result(frameworks=(runtime,)), _result(same_kernel=True), job=_job())
    lines = told.splitlines()
    assert max(map(len, lines)) <= 72
    image, kernel = (next(n for n, line in enumerate(lines) if part in line) for part in EXTENTS)
    assert kernel == image + 1, "the extents of the key, over two lines"
    assert any(line.split()[:2] == ["onnxruntime-web", "1.30.0"] for line in lines)
    name, gain = next((one, two) for one, two in pairwise(lines) if "onnxruntime-web" in one)
    assert name.split()[-3:] == ["20.0", "GFLOP/s", "–"]
    assert gain.split() == ["zoo", "over", "it", "2.25×", "–"]
    assert lines[-1].split() == ["the", "whole", "demo", "104", "s"]


def test_only_a_demos_own_directory_is_emptied(tmp_path: Path) -> None:
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "thesis.tex").touch()
    with pytest.raises(StackError, match="something else than a demo's data"):
        empty(Place.at(precious), "demo")
    assert (precious / "thesis.tex").exists()


def test_a_second_demo_starts_from_nothing(tmp_path: Path) -> None:
    place = Place.at(tmp_path / "demo")
    empty(place, "demo")
    (place.root / "old").touch()
    empty(place, "demo")
    assert not (place.root / "old").exists()
    assert (place.root / "demo").exists()


def test_other_pictures_go_beside_the_first_pages() -> None:
    assert picture_beside(Path("docs/demo.png"), "console") == Path("docs/demo-console.png")


def _network(**changes: object) -> NetworkResult:
    values = {
        "zoo_ms": 40.0,
        "peer": "onnxruntime-web 1.30.0",
        "peer_ms": 70.0,
        "difference": 1.1e-6,
        "calls": 82,
        "levels": ["exact"] * 30 + ["default"] * 52,
    }
    return NetworkResult.model_validate(values | changes)


def test_the_summary_ends_with_the_whole_network_in_both_engines() -> None:
    said = _text_of_summary(_result(), job=_job(), network=_network())
    lines = [line.split() for line in said.splitlines()]
    assert max(map(len, said.splitlines())) <= 72
    assert "random weights" in said
    assert ["kernels", "from", "the", "zoo", "40.0", "ms"] in lines
    assert ["onnxruntime-web", "1.30.0", "70.0", "ms"] in lines
    assert ["zoo", "over", "it", "1.75×"] in lines
    assert ["calls", "of", "kernels", "82"] in lines
    assert ["voted", "for", "by", "devices", "like", "this", "30"] in lines
    assert ["default,", "not", "voted", "on", "yet", "52"] in lines
    levels = ["default", "device", "device"]
    others = _text_of_summary(_result(), job=_job(), network=_network(calls=3, levels=levels))
    assert "devices like this" not in others
    assert ["voted", "for", "in", "another", "browser", "2"] in map(str.split, others.splitlines())
    alone = _network(peer=None, peer_ms=None, difference=None)
    assert "onnxruntime" not in _text_of_summary(_result(), job=_job(), network=alone)


def test_a_network_must_compute_the_same_in_both_engines() -> None:
    assert accept_network(_network()).calls == 82
    with pytest.raises(PageFailed, match=r"differ by 0\.01"):
        accept_network(_network(difference=0.01))
    with pytest.raises(PageFailed, match="differ by None"):
        accept_network(_network(difference=None))


def test_the_tuning_of_a_network_is_told_with_what_it_gained() -> None:
    plan = TunedPlan(
        device_class="c",
        dimensions={},
        precision=Precision.F32,
        first_ms=60,
        expected_ms=45,
        measured=1,
        workloads=15,
        confirmed=3,
        confirmed_flops=0.64,
    )
    assert told(None) == "encoder: nothing is measured yet"
    assert told(plan) == (
        "encoder: 3 of 15 kernels confirmed, 64% of its operations; "
        "a run is expected to take 45.0 ms, 60.0 ms at first"
    )
    assert "at first" not in told(plan.model_copy(update={"first_ms": 45}))


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (_job(state="cancelled"), "was cancelled; `kernelzoo tune"),
        (_job(detail="no device"), "has stopped: no device"),
        (_job(compiled=0, candidates=0), "read the log of the compile worker"),
        (_job(measurements=0), "open http://h/agent in a browser"),
        (_job(target=TargetKind.WEBGPU), "run `kernelzoo fleet --agents 5 --target webgpu`"),
        (_job(), "(ballots: 1, agents: 2); a quorum needs more agents"),
    ],
)
def test_an_idle_job_says_what_it_waits_for(job: Job, sentence: str) -> None:
    assert sentence in why_waiting(job, (), "http://h")


def test_a_speed_up_of_the_default_over_itself_is_said_to_be_of_one_kernel() -> None:
    assert _speed_up(_result(speedup=1, same_kernel=True)) == "same kernel"
    assert _speed_up(_result(speedup=1.3)) == "1.30×"


def test_the_limit_is_named_after_what_the_target_runs_on() -> None:
    told = _text_of_summary(_result(), job=_job(target=TargetKind.WEBGPU))
    assert "of the GPU's limit" in told
