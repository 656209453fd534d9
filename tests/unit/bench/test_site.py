"""Benchmark pages are sent files at a pace."""

import gzip
from time import monotonic
from urllib.request import Request, urlopen

import pytest

from bench import site as sites
from bench.site import BenchSite, Pace
from kernelzoo.serving import serving


def test_at_a_pace_texts_are_compressed_and_inputs_are_there_at_once() -> None:
    with serving(BenchSite()) as site:
        text = b"[" + b"1," * 100_000 + b"1]"
        site.publish("/answer.json", text)
        site.publish("/weights.bin", bytes(1 << 17))
        site.publish("/inputs.bin", bytes(1 << 22), at_once=True)

        def sent(path: str) -> tuple[bytes, str | None]:
            with urlopen(Request(f"{site.url}{path}")) as answer:  # noqa: S310
                return answer.read(), answer.headers["Content-Encoding"]

        assert sent("/answer.json") == (text, None)
        with site.kept_by_browsers(1 << 18):
            body, encoding = sent("/answer.json")
            assert (gzip.decompress(body), encoding) == (text, "gzip")
            assert sent("/inputs.bin") == (bytes(1 << 22), None)
            assert site.pace_of("/inputs.bin") is None
            began_s = monotonic()
            assert sent("/weights.bin") == (bytes(1 << 17), None)
            assert monotonic() - began_s >= 0.5, "no host is faster than the pace"


def test_sleeps_that_end_late_do_not_slow_the_pace_and_a_slow_reader_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 100.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds + 0.25

    monkeypatch.setattr(sites, "monotonic", lambda: now_s)
    monkeypatch.setattr(sites, "sleep", sleep)
    monkeypatch.setattr(sites, "LATE_S", 0.5)
    pace = Pace(bytes_s=1)
    due_s = now_s
    for piece in range(1, 5):
        due_s = pace.wait(1, due_s)
        assert due_s == 100 + piece
    now_s += 7
    assert pace.wait(1, due_s) == now_s - 0.25, "what nobody read in time is not made up for"


def test_what_is_no_text_is_sent_as_bytes() -> None:
    with serving(BenchSite()) as site:
        for path, told in (
            ("/zoo/model/model.weights", "application/octet-stream"),
            ("/networks/model.onnx", "application/octet-stream"),
            ("/models.html", "text/html"),
        ):
            site.publish(path, b"1")
            with urlopen(f"{site.url}{path}") as answer:  # noqa: S310
                assert answer.headers["Content-Type"] == told


def test_a_page_at_the_address_of_its_folder_is_a_page_and_a_file_without_a_suffix_is_bytes() -> (
    None
):
    with BenchSite.serving() as site:
        site.publish("/weights", bytes(4))

        def kind(path: str) -> str:
            with urlopen(Request(f"{site.url}{path}")) as answer:  # noqa: S310
                return str(answer.headers["Content-Type"])

        assert kind("/?threads=1") == kind("/index.html") == "text/html"
        assert kind("/weights") == "application/octet-stream"
