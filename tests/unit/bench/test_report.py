"""Programs read a benchmark's report, and see how it ends."""

import io
import json
import signal
from argparse import Namespace
from pathlib import Path

import pytest
from rich.console import Console

from bench.options import parser, run
from bench.report import CannotMeasure, Claim, Report, emit, machine

REPORT = Report(
    name="compile",
    machine={"cpu": "some"},
    rows=[{"workload": "K0", "median_ms": 5.25, "config": None}],
    claims=[Claim.at_most("compile", 7.5, "ms", 6.0)],
)


def test_a_claim_holds_at_its_bound_and_says_what_it_should_reach() -> None:
    met = Claim.at_least("K0: faster", 1.8, "×", 1.8)
    missed = Claim.at_least("K0: faster", 1.79, "×", 1.8)
    assert (met.ok, missed.ok) == (True, False)
    assert met.reach == "≥ 1.8"
    assert Claim.at_most("p50", 2.0, "ms", 2.0).ok
    assert not Claim.at_most("p50", 2.1, "ms", 2.0).ok


def test_the_json_has_rows_claims_and_machine(tmp_path: Path) -> None:
    emit(REPORT, tmp_path / "report.json", Console(file=io.StringIO()))
    assert json.loads((tmp_path / "report.json").read_text()) == {
        "name": "compile",
        "machine": {"cpu": "some"},
        "rows": [{"workload": "K0", "median_ms": 5.25, "config": None}],
        "claims": [
            {"what": "compile", "value": 7.5, "unit": "ms", "reach": "≤ 6", "ok": False},
        ],
    }


def test_the_table_shows_every_cell_and_which_claims_were_missed() -> None:
    printed = io.StringIO()
    emit(REPORT, None, Console(file=printed, width=100))
    text = printed.getvalue()
    assert all(part in text for part in ("workload", "K0", "5.25", "–", "MISSED", "≤ 6"))


def test_the_machine_says_what_was_asked_of_it() -> None:
    described = machine(browser="Chromium 156")
    assert {"date", "cpu", "logical_cores"} <= set(described)
    assert described["browser"] == "Chromium 156"


def test_a_missed_claim_is_no_error_and_a_missing_browser_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["bench"])
    run(parser("ends well"), lambda _: REPORT, tiny=())

    def unable(_: Namespace) -> Report:
        raise CannotMeasure("there is no browser")

    with pytest.raises(SystemExit, match="cannot measure: there is no browser"):
        run(parser("does not"), unable, tiny=())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_benchmark_that_is_told_to_end_cleans_up_first(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr("sys.argv", ["bench"])
    cleaned: list[str] = []

    def stopped(_: Namespace) -> Report:
        try:
            signal.raise_signal(number)
            return REPORT
        finally:
            cleaned.append("the stack")

    with pytest.raises(SystemExit, match="interrupted"):
        run(parser("is ended"), stopped, tiny=())
    assert cleaned == ["the stack"]
