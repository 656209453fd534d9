"""A fleet is told what to do, takes a browser, and reads a page's words."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.fleet import shares_of
from cli.stack.ports import free_port
from kernelzoo.errors import InvalidInput, StackError
from workers.fleet.__main__ import parse
from workers.fleet.agent import (
    LONGEST_DELAY_S,
    STEADY_S,
    AgentSpec,
    LossStreak,
    longest_delay_s,
    restart_delay_s,
)
from workers.fleet.browsers import BrowserKind, Share, parse_shares
from workers.fleet.chromium import find_chromium, flags, own_flags
from workers.fleet.gpu import GpuChoice, gpu_flags
from workers.fleet.host import offered_notes, write_notes
from workers.fleet.installed import insist_on, installed_browsers
from workers.fleet.quorum import quorum_of, shortage
from workers.fleet.run import plan_agents
from workers.fleet.snapshot import Snapshot, advance
from workers.fleet.status import AgentStatus, FleetStatus, read_status, write_status

COMMAND = ("--url", "http://127.0.0.1:8787/", "--agents", "3", "--state", "/s")


def plan(*told: str) -> tuple[AgentSpec, ...]:
    return plan_agents(parse((*COMMAND, *told), "the key"), Path("/s"))


def test_agents_measure_wasm_unless_told_and_start_no_gpu_then() -> None:
    (spec, *_) = plan()
    assert spec.address == "http://127.0.0.1:8787/agent?target=wasm"
    assert spec.launch.gpu is None


def test_a_fleet_trusts_the_authorities_that_it_is_told() -> None:
    assert parse(COMMAND, "the key").authorities is None
    told = parse((*COMMAND, "--authorities", "/ca.crt"), "the key").authorities
    assert told == Path("/ca.crt")


def test_agents_are_told_their_targets_and_the_adapter() -> None:
    told = ("--target", "wasm", "--target", "webgpu", "--gpu", "software")
    (spec, *_) = plan(*told)
    assert spec.address == "http://127.0.0.1:8787/agent?target=wasm&target=webgpu"
    assert spec.launch.gpu is GpuChoice.SOFTWARE


@pytest.mark.parametrize("node", ["dri/renderD128", "nvidia0"])
def test_the_gpu_of_a_machine_is_taken_where_it_has_one(tmp_path: Path, node: str) -> None:
    device = tmp_path / node
    device.parent.mkdir(exist_ok=True)
    device.touch()
    assert gpu_flags(GpuChoice.AUTO, tmp_path, "linux") == gpu_flags(
        GpuChoice.HARDWARE, platform="linux"
    )


def test_a_machine_without_gpu_has_a_software_adapter(tmp_path: Path) -> None:
    assert "--use-webgpu-adapter=swiftshader" in gpu_flags(GpuChoice.AUTO, tmp_path, "linux")
    assert gpu_flags(GpuChoice.AUTO, tmp_path, "darwin") == []


def test_features_are_enabled_by_one_flag_as_chromium_takes_the_last() -> None:
    for gpu in (GpuChoice.HARDWARE, GpuChoice.SOFTWARE):
        enabled = [flag for flag in own_flags(gpu) if flag.startswith("--enable-features")]
        assert len(enabled) == 1


def test_each_agent_has_a_profile_of_its_own() -> None:
    profiles = [spec.launch.profile for spec in plan()]
    assert profiles == [Path(f"/s/chromium-{n}") for n in (1, 2, 3)]
    assert {spec.url for spec in plan()} == {"http://127.0.0.1:8787"}


def test_agents_of_a_fleet_share_what_one_of_them_measured_of_the_device(tmp_path: Path) -> None:
    first, second = tmp_path / "chromium-1", tmp_path / "chromium-2"
    first.mkdir()
    second.mkdir()
    probe = {"kernelzoo:probe:3:Chromium-156": "r3-011", "kernelzoo:identity": "first"}
    write_notes(first, json.dumps(probe))
    assert offered_notes(second) == {"kernelzoo:probe:3:Chromium-156": "r3-011"}
    own = {"kernelzoo:probe:3:Chromium-156": "r3-101", "kernelzoo:identity": "second"}
    write_notes(second, json.dumps(own))
    assert offered_notes(second) == own


def test_browsers_come_in_turn_so_that_each_engine_is_at_work_early() -> None:
    names = [spec.name for spec in plan("--browser", "chromium=2", "--browser", "firefox=1")]
    assert names == ["chromium-1", "firefox-1", "chromium-2"]


def test_a_browser_without_a_number_has_as_many_agents_as_are_asked_for() -> None:
    assert parse_shares(("firefox", "webkit=1"), 4) == (
        Share(browser=BrowserKind.FIREFOX, agents=4),
        Share(browser=BrowserKind.WEBKIT, agents=1),
    )


@pytest.mark.parametrize(
    ("told", "remedy"),
    [
        (("opera",), "take chromium, firefox, webkit"),
        (("firefox=none",), "as firefox=3"),
        (("firefox=0",), "as firefox=3"),
        (("webkit", "webkit=2"), "as webkit=2"),
    ],
)
def test_a_share_that_means_nothing_is_refused_with_the_remedy(
    told: tuple[str, ...], remedy: str
) -> None:
    with pytest.raises(InvalidInput, match=remedy):
        parse_shares(told, 1)


@pytest.mark.parametrize(
    ("kind", "package"),
    [("firefox", "firefox-esr"), ("webkit", "webkit2gtk-driver")],
)
def test_a_browser_that_is_not_there_is_named_with_its_package(
    kind: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StackError, match=f"{kind} cannot .* `apt-get install {package}`"):
        insist_on(parse_shares((kind,), 1))


def test_the_operators_key_is_not_in_any_text_of_the_plan() -> None:
    assert "the key" not in repr(parse(COMMAND, "the key")) + repr(plan())


@pytest.mark.parametrize("key", [None, ""])
def test_a_fleet_without_the_operators_key_says_what_to_set(key: str | None) -> None:
    with pytest.raises(StackError, match="set KERNELZOO_OPERATOR_KEY"):
        parse(COMMAND, key)


def test_a_fleet_of_nobody_is_refused() -> None:
    with pytest.raises(StackError, match="at least one agent, not 0"):
        parse(("--url", "http://h", "--agents", "0", "--state", "/s"), "k")


def test_only_root_runs_without_the_sandbox() -> None:
    assert "--no-sandbox" in flags(sandbox=False)
    assert "--no-sandbox" not in flags(sandbox=True)
    assert ("--no-sandbox" in own_flags()) == (os.geteuid() == 0)


def test_a_container_may_stand_in_for_the_sandbox() -> None:
    assert "--no-sandbox" in own_flags(sandbox=False)
    assert all(spec.launch.sandbox for spec in plan())
    assert not any(spec.launch.sandbox for spec in plan("--without-sandbox"))


def _program(directory: Path, name: str, text: str = "\x7fELF") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def _on_path(**programs: Path) -> Callable[[str], str | None]:
    return lambda name: str(programs[name]) if name in programs else None


def test_the_systems_chromium_comes_before_playwrights(tmp_path: Path) -> None:
    system, own = _program(tmp_path, "chromium"), _program(tmp_path, "own")
    assert find_chromium(own, _on_path(chromium=system)) == system
    assert find_chromium(own, _on_path()) == own


def test_a_stub_that_starts_a_snap_is_passed_over(tmp_path: Path) -> None:
    stub = _program(tmp_path, "chromium-browser", '#!/bin/sh\nexec /snap/bin/chromium "$@"\n')
    own = _program(tmp_path, "own")
    assert find_chromium(own, _on_path(**{"chromium-browser": stub})) == own


def test_without_any_chromium_the_sentence_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="apt-get install chromium"):
        find_chromium(tmp_path / "absent", _on_path())


def test_events_add_up_to_a_status() -> None:
    events = [
        {
            "type": "session",
            "target": "wasm",
            "deviceClass": "0/r2-1/wasm",
            "engine": {"name": "Firefox", "version": "153"},
        },
        {"type": "lease", "target": "wasm", "workload": "matmul:f32:m5k7n3"},
        {"type": "measured", "outcome": "ok", "gflops": 40.0},
        {"type": "firstTimed", "firstTimedMs": 812.5},
        {"type": "measured", "outcome": "compare"},
        {"type": "ballot", "final": False},
        {"type": "ballot", "final": True},
    ]
    snapshot = Snapshot.model_validate_json(json.dumps({"state": "measuring", "events": events}))
    status = advance(AgentStatus(agent="agent-1", state="starting"), snapshot)
    assert status == AgentStatus(
        agent="agent-1",
        state="measuring",
        engine="Firefox 153",
        device_class="0/r2-1/wasm",
        device_classes={"wasm": "0/r2-1/wasm"},
        workload="matmul:f32:m5k7n3",
        measured=1,
        failed=1,
        ballots=2,
        final_ballots=1,
        first_timed_ms=812.5,
    )


def test_the_first_timed_candidate_stays_the_first_after_a_restart() -> None:
    again = Snapshot.model_validate_json(
        '{"state": "s", "events": [{"type": "firstTimed", "firstTimedMs": 5}]}'
    )
    before = AgentStatus(agent="a", state="s", first_timed_ms=900)
    assert advance(before, again).first_timed_ms == 900


def test_a_status_survives_its_file(tmp_path: Path) -> None:
    status = FleetStatus(url="http://h", agents=(AgentStatus(agent="a", state="idle"),))
    assert read_status(tmp_path) is None
    write_status(tmp_path, status)
    assert read_status(tmp_path) == status


def test_an_agent_that_keeps_dying_is_restarted_ever_later() -> None:
    delays_s = [longest_delay_s(n) for n in range(1, 10)]
    assert delays_s == sorted(delays_s)
    assert (delays_s[0], delays_s[-1]) == (1, LONGEST_DELAY_S)


def test_agents_do_not_come_back_in_step() -> None:
    assert restart_delay_s(3, share=0.0) == longest_delay_s(3)
    assert restart_delay_s(3, share=1.0) == longest_delay_s(3) / 2


def test_an_agent_that_worked_for_a_while_comes_back_soon() -> None:
    losses = LossStreak().after(1).after(1)
    assert losses.in_a_row == 2
    assert losses.after(STEADY_S).in_a_row == 1


@pytest.mark.parametrize(("agents", "lacking"), [(1, "must add 4"), (4, "must add 1"), (5, None)])
def test_a_fleet_without_a_quorum_says_so_and_what_to_do(agents: int, lacking: str | None) -> None:
    shares = parse_shares(("chromium", "firefox=1"), agents)
    told = shortage(shares, 5)
    if lacking is None:
        assert told is None
    else:
        assert told is not None
        assert lacking in told
        assert "FLEET_AGENTS=5" in told


def test_a_gateway_that_does_not_answer_keeps_no_fleet_from_starting() -> None:
    assert quorum_of(f"http://127.0.0.1:{free_port()}") is None
    assert shortage(parse_shares(("chromium",), 1), None) is None


def test_a_number_of_agents_without_browsers_is_of_chromium_alone() -> None:
    four = (Share(browser=BrowserKind.CHROMIUM, agents=4),)
    assert shares_of(None, 4) == four
    assert shares_of(("firefox", "chromium=1"), 2) == (
        Share(browser=BrowserKind.FIREFOX, agents=2),
        Share(browser=BrowserKind.CHROMIUM, agents=1),
    )
    one_of_each = shares_of(None, None)
    assert [share.browser for share in one_of_each] == list(installed_browsers())
    assert {share.agents for share in one_of_each} == {1}
