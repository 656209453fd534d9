"""The picture of a page that tunes itself."""

from xml.etree import ElementTree as ET

import pytest

from bench.models.curve import Curve, drawn, thinned
from bench.models.jit import JitAnswer, TimedSwap

SVG = "{http://www.w3.org/2000/svg}"


def answer(inferences: int, peer: tuple[tuple[float, float], ...] = ()) -> JitAnswer:
    """An inference a second, of 20 ms before the 60th and 10 after; each tenth is disturbed."""
    return JitAnswer(
        browser="",
        initial_ms=(20.0,),
        ours=tuple(
            (float(i), 500.0 if i % 10 == 9 else 20.0 if i < 60 else 10.0)
            for i in range(inferences)
        ),
        waits_ms=(),
        after_slice_ms=(),
        peer=peer,
        swaps=(TimedSwap(at_s=60.0, workload="matmul", relative_time=0.5),),
        regressions=(),
        measured=1,
        spent_ms=0.0,
        ended_s=None,
        reason="",
        long_tasks_ms=(),
        contributed=0,
        difference=0.0,
    )


def test_a_point_is_the_median_of_as_many_inferences_each() -> None:
    curve = thinned(answer(600, ((1.0, 40.0), (2.0, 50.0), (3.0, 900.0))), most=60)
    assert len(curve.points) == 60
    assert curve.points[0] == (4.5, 20.0)
    assert curve.points[-1] == (594.5, 10.0)
    assert (curve.swaps_s, curve.peer_ms) == ((60.0,), 50.0)


def test_of_few_inferences_each_is_a_point_and_no_peer_is_no_line() -> None:
    curve = thinned(answer(7))
    assert [at for at, _ in curve.points] == [0, 1, 2, 3, 4, 5, 6]
    assert classes(drawn("gpt2", curve)).count("peer") == 0


def test_the_picture_has_the_line_the_swaps_and_the_peers_time_in_their_places() -> None:
    curve = Curve(points=((0.0, 20.0), (5.0, 10.0), (10.0, 10.0)), swaps_s=(5.0,), peer_ms=40.0)
    picture = drawn("mobilenetv2", curve)
    assert picture == drawn("mobilenetv2", curve)
    assert "prefers-color-scheme: dark" in picture
    root = ET.fromstring(picture)  # noqa: S314 - our own
    [line] = root.iter(f"{SVG}polyline")
    points = [tuple(map(float, each.split(","))) for each in line.attrib["points"].split()]
    [swap] = [each for each in root.iter(f"{SVG}line") if each.attrib["class"] == "swap"]
    [peer] = [each for each in root.iter(f"{SVG}line") if each.attrib["class"] == "peer"]
    assert [x for x, _ in points] == [56, 382, 708], "from the axis to the margin"
    assert float(swap.attrib["x1"]) == points[1][0]
    floor_y = 212.0
    heights = [floor_y - y for _, y in points]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.2)
    assert floor_y - float(peer.attrib["y1"]) == pytest.approx(4 * heights[1], abs=0.4)
    title = root.findtext(f"{SVG}title")
    told = "from 20 to 10 ms in 10 s; swaps: 1; onnxruntime-web takes 40 ms"
    assert title == f"mobilenetv2: {told}"
    assert {"0", "20", "40", "2", "10"} <= {each.text for each in root.iter(f"{SVG}text")}


def classes(picture: str) -> list[str]:
    root = ET.fromstring(picture)  # noqa: S314 - our own
    return [each.attrib.get("class", "") for each in root.iter()]
