"""Rows in a pipe, at a terminal of any width, and as JSON."""

import io
import json
import sys

import pytest
from rich.console import Console

from cli import listing
from cli.fleet import fleet_table
from cli.listing import Column, Listing, print_json
from cli.simulate.command import COLUMNS as SIMULATED
from cli.zoo import COLUMNS as ENTRIES
from workers.fleet.status import AgentStatus, FleetStatus

KEY = "conv2d+bias+relu:f32:b1h56w56c64o64kh3kw3stride1pad1"
CLASS = "0123456789abcdef:r1-0123456789abcdef:wasm+relaxed-simd+simd128"
ROW = (KEY, CLASS, "12", "confirmed", "66.6", "25/75 in 5 ballots")
ZOO = Listing(columns=ENTRIES, rows=(ROW,))


def at_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> str:
    screen = io.StringIO()
    console = Console(
        file=screen, force_terminal=True, width=width, highlight=False, color_system=None
    )
    monkeypatch.setattr(listing, "out", console)
    ZOO.show()
    return screen.getvalue()


def test_in_a_pipe_each_row_is_one_line_that_grep_finds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ZOO.show()
    heading, line = capsys.readouterr().out.splitlines()
    assert line.split("  ")[0] == KEY
    assert all(cell in line for cell in ROW)
    assert line.index(CLASS) == heading.index("device class")


def test_what_a_console_prints_in_a_pipe_is_not_wrapped() -> None:
    assert not sys.stdout.isatty()
    from cli.terminal import out

    assert out.soft_wrap


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_table_fits_the_terminal_by_leaving_columns_out_and_cuts_no_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    drawn = at_terminal(monkeypatch, width)
    assert max(len(line) for line in drawn.splitlines()) <= width
    assert KEY in drawn
    assert "confirmed" in drawn
    assert "…" not in drawn
    told = capsys.readouterr().err
    assert (CLASS in drawn) == (width == 200)
    assert ("left out in" in told) == (width < 200)


def test_headings_of_every_attack_are_whole_in_80_columns() -> None:
    found = ("100.0%", "10.5%", "19.0%", "17.5%", "100%", "100%", "1.3%", "230", "60%")
    row = ("cross-class denials", "20%", "300", "100%", *found)
    figures = Listing(columns=SIMULATED, rows=(row,))
    shown = figures.fitting(80)
    assert {"attack", "malicious", "wrongly", "regret", "caught"} <= {
        c.heading for c in shown.columns
    }
    assert max(map(len, shown.lines())) <= 80


def test_a_listing_of_one_column_too_wide_is_kept_and_folded() -> None:
    wide = Listing(columns=(Column(heading="key"),), rows=(("k" * 200,),))
    assert wide.fitting(80) == wide


def test_json_is_plain_however_wide(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"key": "k" * 500})
    assert json.loads(capsys.readouterr().out) == {"key": "k" * 500}


def test_a_fleet_in_80_columns_tells_of_each_agent_what_it_does() -> None:
    status = AgentStatus(
        agent="chromium-1",
        state="measuring",
        browser="chromium",
        engine="Chromium 156.0.7390.0",
        device_class=CLASS,
        workload=KEY,
        measured=123,
        ballots=4,
    )
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, color_system=None)
    console.print(fleet_table(FleetStatus(url="http://h", agents=(status,)), console.width))
    (line,) = (line for line in screen.getvalue().splitlines() if "chromium-1" in line)
    assert len(line) <= 80
    assert "measuring" in line
    assert "123 measured, 4 ballots" in line
    assert "Chromium 156.0.7390.0" in line
