"""Settings are read from the environment, those under an old name too."""

import pytest
from structlog.testing import capture_logs

from kernelzoo.settings import WorkerSettings


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("KERNELZOO_DATABASE_URL", "postgresql:///zoo")
    monkeypatch.setenv("KERNELZOO_REDIS_URL", "redis://localhost")
    for name in ("KERNELZOO_LIARS", "KERNELZOO_MAX_MALICIOUS_SHARE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_share_of_malicious_identities_is_read_without_a_warning(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("KERNELZOO_MAX_MALICIOUS_SHARE", "0.1")
    with capture_logs() as lines:
        assert WorkerSettings().max_malicious_share == 0.1
    assert lines == []


def test_its_old_name_is_still_read_and_the_log_tells_the_new_one(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("KERNELZOO_LIARS", "0.3")
    with capture_logs() as lines:
        assert WorkerSettings().max_malicious_share == 0.3
    assert [line["new"] for line in lines] == ["KERNELZOO_MAX_MALICIOUS_SHARE"]


def test_the_new_name_wins_over_the_old_one(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("KERNELZOO_LIARS", "0.3")
    environment.setenv("KERNELZOO_MAX_MALICIOUS_SHARE", "0.1")
    assert WorkerSettings().max_malicious_share == 0.1
