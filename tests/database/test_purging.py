"""A denial reaches the caches before the gateway, also past failures and restarts."""

import time
from collections.abc import Iterator
from http import HTTPStatus
from types import SimpleNamespace

import pytest

from fixtures.purged import Recorder, recorder
from fixtures.rows import compile_row
from kernelzoo.settings import Settings
from kernelzoo.store import denials, notifications
from kernelzoo.store.blocking import execute
from services.gateway import purging
from services.gateway.purging import artifact_tag, device_tag
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.database.strangers import Crowd
from tests.database.test_denials import (
    CLASS,
    SECOND,
    THIRD,
    artifact_of,
    decide,
    fail,
    publish,
    served,
)
from tests.database.test_standby import database_away, gateway, status_of
from tests.running import eventually

pytestmark = pytest.mark.usefixtures("job_id")


@pytest.fixture
def cdn() -> Iterator[Recorder]:
    with recorder() as started:
        yield started


@pytest.fixture
def behind(settings: Settings, cdn: Recorder) -> Settings:
    """A gateway that tells this CDN."""
    return settings.model_copy(update={"purge": "varnish", "purge_url": cdn.url})


def hard(cdn: Recorder) -> list[set[str]]:
    """Returns the tags of each time that something was to be forgotten."""
    return [
        set(each.headers["surrogate-key"].split())
        for each in cdn.requests
        if "soft-purge" not in each.headers
    ]


def soft(cdn: Recorder) -> set[str]:
    tags = [
        each.headers["surrogate-key"].split()
        for each in cdn.requests
        if "soft-purge" in each.headers
    ]
    return {tag for some in tags for tag in some}


def tags_of(artifact: str) -> set[str]:
    return {artifact_tag(artifact), device_tag(str(CLASS))}


def test_a_denial_is_told_until_it_is_heard_and_what_is_served_then_is_new(
    behind: Settings, cdn: Recorder, db: Connection
) -> None:
    publish(db, SECOND)
    with gateway(behind) as http:
        eventually(lambda: served(http)["kernel"]["candidate"] == SECOND, "the winner")
        cdn.answers = [HTTPStatus.BAD_GATEWAY, HTTPStatus.FORBIDDEN]
        artifact = artifact_of(db, SECOND)
        decide(http, artifact, denied=True)
        eventually(lambda: len(hard(cdn)) >= 3, "the CDN is told a third time")
        # It asks again from now on, and whatever it gets it may keep.
        assert served(http)["kernel"]["candidate"] != SECOND
    assert hard(cdn)[:3] == [tags_of(artifact)] * 3


def test_what_strangers_deny_is_told(
    behind: Settings, cdn: Recorder, come: Crowd, db: Connection
) -> None:
    compile_row(db, make_candidate(3))
    with gateway(behind):
        for network in range(5):
            assert hard(cdn) == []
            fail(come(network), db, THIRD)
        eventually(lambda: tags_of(artifact_of(db, THIRD)) in hard(cdn), "the CDN is told")


def test_who_was_not_there_tells_of_what_was_denied_meanwhile(
    behind: Settings, cdn: Recorder, db: Connection, database_url: str
) -> None:
    artifact = artifact_of(db, SECOND)
    deny(db, artifact)
    with gateway(behind) as http:
        eventually(lambda: tags_of(artifact) in hard(cdn), "a gateway that starts tells of it")
        cdn.requests.clear()
        with database_away(database_url):
            eventually(lambda: status_of(http) != "ready", "the gateway notices it")
        eventually(lambda: tags_of(artifact) in hard(cdn), "it tells again once it listens again")


def test_who_was_away_for_long_tells_of_all_that_was_denied_since(
    behind: Settings,
    cdn: Recorder,
    db: Connection,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It gave what it kept while it was away, and a cache may give that for a day."""
    passed_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed_s)
    monkeypatch.setattr(purging, "time", clock)
    artifact = artifact_of(db, SECOND)
    deny(db, artifact)
    db.execute("UPDATE denied SET decided_at = now() - interval '25 hours'")
    with gateway(behind) as http:
        eventually(lambda: status_of(http) == "ready", "the gateway hears of changes")
        with database_away(database_url):
            eventually(lambda: status_of(http) != "ready", "the gateway notices it")
            assert hard(cdn) == []
            passed_s = 7200.0
        eventually(lambda: tags_of(artifact) in hard(cdn), "it tells of it")


def test_where_more_was_denied_than_is_listed_everything_is_forgotten(
    behind: Settings, cdn: Recorder, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "MOST_DENIED", 1)
    deny(db, artifact_of(db, SECOND))
    with gateway(behind):
        eventually(lambda: any(purging.ZOO in tags for tags in hard(cdn)), "all of it")


def test_a_denial_that_begins_to_hold_for_a_device_is_told_and_is_of_now(
    behind: Settings, cdn: Recorder, db: Connection
) -> None:
    artifact = artifact_of(db, SECOND)
    deny(db, artifact)
    db.execute("UPDATE denied SET device_wide = false, decided_at = now() - interval '25 hours'")
    with gateway(behind) as http:
        eventually(lambda: status_of(http) == "ready", "the gateway hears of changes")
        assert hard(cdn) == []
        execute(db, denials.set_device_wide(artifact, CLASS, device_wide=True))
        eventually(lambda: tags_of(artifact) in hard(cdn), "the CDN is told")
        cdn.requests.clear()
    with gateway(behind):
        eventually(lambda: tags_of(artifact) in hard(cdn), "who starts tells of it")


def test_gateways_of_either_version_hear_of_a_denial_whoever_writes_it(
    db: Connection, owner: Connection
) -> None:
    """Gateways of 0.1.0 listen to the second channel alone."""
    owner.execute("LISTEN kernelzoo_denied")
    owner.execute("LISTEN kernelzoo_zoo")
    artifact = artifact_of(db, SECOND)
    deny(db, artifact)
    told = {(each.channel, each.payload) for each in owner.notifies(timeout=30, stop_after=2)}
    assert told == {("kernelzoo_denied", f"{artifact}\n{CLASS}"), ("kernelzoo_zoo", "")}


def deny(db: Connection, artifact: str) -> None:
    execute(
        db,
        denials.decide(
            artifact, CLASS, denied=True, stage="run", evidence="it traps", operated=True
        ),
    )


def test_what_was_denied_long_ago_is_not_told_again(
    behind: Settings, cdn: Recorder, db: Connection
) -> None:
    deny(db, artifact_of(db, SECOND))
    db.execute("UPDATE denied SET decided_at = now() - interval '25 hours'")
    with gateway(behind) as http:
        eventually(lambda: status_of(http) == "ready", "the gateway hears of changes")
        execute(db, notifications.entry_changed(WORKLOAD.key, CLASS))
        eventually(lambda: device_tag(str(CLASS)) in soft(cdn), "a change is told")
    assert hard(cdn) == []


def test_an_outdated_answer_is_asked_for_again_and_given_meanwhile(
    behind: Settings, cdn: Recorder, db: Connection
) -> None:
    with gateway(behind) as http:
        eventually(lambda: status_of(http) == "ready", "the gateway hears of changes")
        execute(db, notifications.entry_changed(WORKLOAD.key, CLASS))
        eventually(lambda: device_tag(str(CLASS)) in soft(cdn), "the class is told")
        execute(db, notifications.zoo_changed())
        eventually(lambda: "zoo" in soft(cdn), "all of it is told")
    assert hard(cdn) == []
