"""The broker's queue of compilations, in the test's own hands and in the order of the workers."""

import heapq
from itertools import count

from kernelzoo import jobs
from tests.database.conftest import Connection
from workers import compiling

BATCH = 16


class CompileQueue:
    """Takes what gateway and workers send; `work` does the first message as compile workers do."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._sent = count()
        self._waiting: list[tuple[int, int, jobs.Message]] = []

    def __call__(self, message: jobs.Message) -> None:
        if message.queue == jobs.COMPILE_QUEUE:
            heapq.heappush(self._waiting, (message.place, next(self._sent), message))

    @property
    def first_place(self) -> int:
        return self._waiting[0][0]

    def work(self) -> jobs.Message:
        *_, message = heapq.heappop(self._waiting)
        match message:
            case jobs.Message(name="plan_space", arguments=(int(job_id),)):
                follow = (*compiling.plan_space(self._db, job_id, BATCH), jobs.order_spaces())
            case jobs.Message(name="compile_batch", arguments=(list(ids),)):
                follow = compiling.compile_batch(self._db, [str(each) for each in ids])
            case _:
                follow = ()
        for each in follow:
            self(each)
        return message
