"""The client's files are served as client/build.js makes them."""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from hashlib import sha384
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from kernelzoo import __version__
from services.gateway.client_files import ClientFiles, accepted

TEXT = "export const answer = 42;\n" * 50
HASHED = "sdk-0123456789ab.js"
CHUNK = "chunks/gpu-run-0g2j4z.js"


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    (tmp_path / "chunks").mkdir()
    for name in ("sdk.js", "chat.js", "ort.js", HASHED, "agent-page.js", CHUNK, "icon.svg"):
        (tmp_path / name).write_text(TEXT)
    for name in ("sdk.js", HASHED):
        # What Brotli makes of it is nobody's matter here: the bytes are passed on.
        (tmp_path / f"{name}.br").write_bytes(b"as Brotli has it")
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(TEXT.encode()))
    app = Starlette()
    app.mount("/client", ClientFiles(directory=tmp_path))
    with TestClient(app) as client:
        yield client


def get(http: TestClient, name: str, coding: str, **headers: str) -> tuple[bytes, dict[str, str]]:
    """The body as it was sent."""
    asked = {"Accept-Encoding": coding, **headers}
    with http.stream("GET", f"/client/{name}", headers=asked) as answer:
        return b"".join(answer.iter_raw()), dict(answer.headers)


@pytest.mark.parametrize(
    ("coding", "sent"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip;q=1.0, BR; q=0.8", "br"),
        ("br;q=0, gzip", "gzip"),
        ("gzip", "gzip"),
        ("identity", None),
        ("", None),
    ],
)
def test_a_script_is_sent_in_the_shortest_form_that_the_browser_reads(
    http: TestClient, coding: str, sent: str | None
) -> None:
    bodies = {"br": b"as Brotli has it", "gzip": gzip.compress(TEXT.encode()), None: TEXT.encode()}
    body, headers = get(http, "sdk.js", coding)
    assert headers.get("content-encoding") == sent
    assert headers["content-type"].startswith("text/javascript")
    assert headers["vary"] == "Accept-Encoding"
    expected = bodies[sent]
    assert gzip.decompress(body) == TEXT.encode() if sent == "gzip" else body == expected
    assert int(headers["content-length"]) == len(body)


def test_each_form_has_a_tag_of_its_own_and_is_not_sent_twice(http: TestClient) -> None:
    tags = {coding: get(http, "sdk.js", coding)[1]["etag"] for coding in ("br", "gzip", "identity")}
    assert len(set(tags.values())) == 3
    for coding, tag in tags.items():
        body, headers = get(http, "sdk.js", coding, **{"If-None-Match": tag})
        assert body == b""
        assert headers["vary"] == "Accept-Encoding"


def test_what_was_not_compressed_is_sent_as_it_is(http: TestClient) -> None:
    body, headers = get(http, "icon.svg", "br, gzip")
    assert (body, headers.get("content-encoding")) == (TEXT.encode(), None)
    assert http.get("/client/none.js").status_code == 404
    assert http.get("/client/../secret").status_code == 404


def test_names_with_a_hash_are_kept_for_ever_and_their_alias_for_minutes(http: TestClient) -> None:
    def kept(name: str) -> str:
        return get(http, name, "br")[1]["cache-control"]

    assert kept(HASHED) == kept(CHUNK) == "public, max-age=31536000, immutable"
    assert kept("sdk.js") == "public, max-age=300, stale-if-error=86400"
    assert kept("chat.js") == kept("ort.js") == kept("sdk.js")
    assert kept("agent-page.js") == "no-cache"


def test_codings_that_a_browser_forbids_are_not_accepted() -> None:
    assert accepted("br;q=0.000, gzip;q=0.001") == {"gzip"}


def test_the_build_names_the_sdk_by_its_hash_and_says_what_a_page_needs_to_pin_it() -> None:
    dist = Path(__file__).parents[3] / "client" / "dist"
    if not (dist / "sdk.json").exists():
        pytest.skip("the client is not built; run `make build`")
    told = json.loads((dist / "sdk.json").read_text())
    script = (dist / told["file"]).read_bytes()
    assert told["version"] == __version__
    assert re.fullmatch(r"sdk-[0-9a-z]{12}\.js", told["file"])
    assert told["integrity"] == f"sha384-{base64.b64encode(sha384(script).digest()).decode()}"
    assert told["chunks"], "what a page with a model loads"
    assert all((dist / each).exists() for each in told["chunks"])
    assert gzip.decompress((dist / "sdk.js.gz").read_bytes()) == (dist / "sdk.js").read_bytes()
    assert len((dist / "sdk.js.br").read_bytes()) < 18_500


def test_chunks_import_the_very_script_that_loads_them() -> None:
    dist = Path(__file__).parents[3] / "client" / "dist"
    if not (dist / "sdk.json").exists():
        pytest.skip("the client is not built; run `make build`")
    pinned = json.loads((dist / "sdk.json").read_text())["file"]
    for entry, folder in (("sdk.js", "chunks"), (pinned, "pinned")):
        loaded = set(re.findall(r'import\(["`]\./([^"`]+)', (dist / entry).read_text()))
        assert loaded
        assert {Path(name).parent.name for name in loaded} == {folder}
        scripts = [path.read_text() for path in (dist / folder).glob("*.js")]
        above = {name for text in scripts for name in re.findall(r'from"\.\./([^"]+)"', text)}
        assert above == {entry}
