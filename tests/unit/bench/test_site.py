"""What benchmark pages are sent at a pace."""

import gzip
from time import monotonic
from urllib.request import Request, urlopen

from bench.site import BenchSite
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
