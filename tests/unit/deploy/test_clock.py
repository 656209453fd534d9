"""Jobs of the clock are known to the workers, and each goes to a queue that an image serves."""

import re
from pathlib import Path

import pytest
from celery import Celery

from kernelzoo import jobs

ROOT = Path(__file__).parents[3]
SERVED = set(re.findall(r'"-Q", "(\w+)"', (ROOT / "docker/Dockerfile").read_text()))


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Celery:
    monkeypatch.setenv("KERNELZOO_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("KERNELZOO_REDIS_URL", "redis://127.0.0.1:1/0")
    from workers.app import app as workers  # Importing it asks for the settings.

    return workers


def test_every_periodic_job_is_a_task_on_a_queue_that_is_served(app: Celery) -> None:
    schedule = app.conf.beat_schedule
    assert set(schedule) == {
        job.name
        for job in (
            *(jobs.requeue(), jobs.order_spaces(), jobs.aggregate_by_family()),
            *(jobs.take_census(), jobs.train_model(), jobs.remove_old()),
        )
    }
    for name, entry in schedule.items():
        assert entry["task"] in app.tasks, name
        assert entry["options"]["queue"] in SERVED, name
        assert entry["options"]["expires"] <= entry["schedule"], name
