"""The caches of three makers are asked as their interfaces want it: a server writes it down."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from urllib.error import HTTPError, URLError

import pytest

from cli.stack.ports import free_port
from fixtures.purged import Recorder, recorder
from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from services.gateway.cdn import chosen_cdn
from services.gateway.purging import artifact_tag, class_tags, device_tag

WASM = "0123456789abcdef:r1-0:wasm+simd128"
WEBGPU = "0123456789abcdef:r101-0:webgpu"


@pytest.fixture
def cdn() -> Iterator[Recorder]:
    with recorder() as started:
        yield started


def settings(**changes: object) -> Settings:
    given = {
        "database_url": "dbname=none",
        "redis_url": "redis://127.0.0.1:1",
        "operator_key": "operator",
        "token_secret": "secret",
    }
    return Settings.model_validate({**given, **changes})


def test_varnish_is_told_at_every_address(cdn: Recorder) -> None:
    with recorder() as other:
        chosen = chosen_cdn(settings(purge="varnish", purge_url=f"{cdn.url}, {other.url}/"))
        assert chosen is not None
        chosen.purge(["a", "b"], soft=True)
        chosen.purge(["c"], soft=False)
        for each in (cdn, other):
            soft, hard = each.requests
            assert (soft.method, soft.headers["surrogate-key"]) == ("PURGE", "a b")
            assert soft.headers["soft-purge"] == "1"
            assert (hard.method, hard.headers["surrogate-key"]) == ("PURGE", "c")
            assert "soft-purge" not in hard.headers


def test_varnish_is_told_of_no_more_tags_than_its_headers_hold(cdn: Recorder) -> None:
    chosen = chosen_cdn(settings(purge="varnish", purge_url=cdn.url))
    assert chosen is not None
    tags = [artifact_tag(f"{number:064x}"[::-1]) for number in range(1000)]
    chosen.purge(tags, soft=False)
    told = [each.headers["surrogate-key"] for each in cdn.requests]
    assert [tag for some in told for tag in some.split()] == tags
    assert max(len(f"Surrogate-Key: {some}") for some in told) < 8192


def test_a_varnish_that_is_away_keeps_no_other_from_hearing(cdn: Recorder) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    chosen = chosen_cdn(settings(purge="varnish", purge_url=f"{away},{cdn.url}"))
    assert chosen is not None
    with pytest.raises(URLError):
        chosen.purge(["a"], soft=False)
    assert [each.headers["surrogate-key"] for each in cdn.requests] == ["a"]


def test_fastly_is_told_of_256_tags_at_a_time(cdn: Recorder) -> None:
    chosen = chosen_cdn(
        settings(purge="fastly", purge_url=cdn.url, purge_service="a/b", purge_token="t")
    )
    assert chosen is not None
    tags = [f"device-{number}" for number in range(300)]
    chosen.purge(tags, soft=True)
    chosen.purge(["zoo"], soft=False)
    first, second, hard = cdn.requests
    assert (first.method, first.path) == ("POST", "/service/a%2Fb/purge")
    assert [each.headers["fastly-key"] for each in cdn.requests] == ["t"] * 3
    assert first.headers["surrogate-key"].split() == tags[:256]
    assert second.headers["surrogate-key"].split() == tags[256:]
    assert first.headers["fastly-soft-purge"] == "1"
    assert "fastly-soft-purge" not in hard.headers


def test_cloudflare_is_told_of_100_tags_at_a_time_and_softens_nothing(cdn: Recorder) -> None:
    chosen = chosen_cdn(
        settings(purge="cloudflare", purge_url=cdn.url, purge_service="zone", purge_token="t")
    )
    assert chosen is not None
    assert not chosen.softens
    tags = [f"device-{number}" for number in range(150)]
    chosen.purge(tags, soft=False)
    first, second = cdn.requests
    assert (first.method, first.path) == ("POST", "/zones/zone/purge_cache")
    assert first.headers["authorization"] == "Bearer t"
    assert first.headers["content-type"] == "application/json"
    assert [json.loads(each.body) for each in (first, second)] == [
        {"tags": tags[:100]},
        {"tags": tags[100:]},
    ]


def test_whatever_is_no_success_is_an_error(cdn: Recorder) -> None:
    cdn.answers = [HTTPStatus.FORBIDDEN]
    chosen = chosen_cdn(settings(purge="varnish", purge_url=cdn.url))
    assert chosen is not None
    with pytest.raises(HTTPError, match="403"):
        chosen.purge(["a"], soft=False)


def test_who_sends_elsewhere_is_not_followed(cdn: Recorder) -> None:
    """A redirected POST would be a GET, which purges nothing, with the token."""
    with recorder() as other:
        cdn.answers, cdn.location = [HTTPStatus.FOUND], other.url
        chosen = chosen_cdn(
            settings(purge="fastly", purge_url=cdn.url, purge_service="s", purge_token="t")
        )
        assert chosen is not None
        with pytest.raises(HTTPError, match="302"):
            chosen.purge(["a"], soft=False)
        assert other.requests == []


def test_who_does_not_speak_http_is_an_error_like_any_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as other:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"no HTTP\r\n")

        answered = other.submit(answer)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        chosen = chosen_cdn(settings(purge="varnish", purge_url=url))
        assert chosen is not None
        with pytest.raises(OSError, match="something else than HTTP"):
            chosen.purge(["a"], soft=False)
        answered.result()


def test_without_a_cdn_there_is_none() -> None:
    assert chosen_cdn(settings()) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"purge": "akamai"}, "write one of varnish, fastly, cloudflare"),
        ({"purge": "varnish"}, "KERNELZOO_PURGE=varnish needs KERNELZOO_PURGE_URL$"),
        ({"purge": "varnish", "purge_url": "varnish:80"}, "'varnish:80', which is no address"),
        (
            {"purge": "fastly"},
            "needs KERNELZOO_PURGE_SERVICE and KERNELZOO_PURGE_TOKEN",
        ),
        (
            {"purge": "cloudflare", "purge_service": "zone"},
            "KERNELZOO_PURGE=cloudflare needs KERNELZOO_PURGE_TOKEN$",
        ),
    ],
)
def test_what_is_missing_is_named(changes: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        chosen_cdn(settings(**changes))


def test_both_classes_of_a_device_have_one_tag() -> None:
    assert device_tag(WASM) == device_tag(WEBGPU)
    assert class_tags(WASM, WEBGPU) == {
        "Surrogate-Key": f"zoo {device_tag(WASM)}",
        "Cache-Tag": f"zoo,{device_tag(WASM)}",
    }


def test_tags_are_short_words_whatever_was_asked_for() -> None:
    for odd in ("", "a b,c\r\nX: y", "\u00e4" * 200):
        tags = class_tags(odd)["Cache-Tag"].split(",")
        assert len(tags) == 2
        assert all(tag.isascii() and tag.replace("-", "").isalnum() for tag in tags)
    assert artifact_tag("0" * 64) == "artifact-0000000000000000"
