"""Every metric that kernelzoo exports: its name, its help text and the values of its labels.

A label takes the values of an enumeration or of a table of this module, never text that came from
outside, but for two. `route` is told by the gateway: the templates of its routes. `model` is a name
that the operator registered, at most 64 letters, digits, dots, dashes and underscores, of the
`MOST_MODELS` that pages ask for most.

Where PROMETHEUS_MULTIPROC_DIR is set, processes that were forked count in files there, and
`kernelzoo.exporter` adds them up; the directory must exist before the first metric does.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from kernelzoo.domain.measurement import Outcome, Verdict
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import EntryState, HitLevel

DIRECTORY = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
if DIRECTORY:
    Path(DIRECTORY).mkdir(parents=True, exist_ok=True)


class CompileStage(StrEnum):
    """From a candidate to its bytes; kernels that lay its weights out; the rows of both."""

    KERNEL = "kernel"
    PACKS = "packs"
    STORE = "store"


class CompileOutcome(StrEnum):
    """Compiling a candidate ends in one of these. Abandoned: every worker that tried it died."""

    COMPILED = "compiled"
    REFUSED = "refused"
    ABANDONED = "abandoned"


class RefusalReason(StrEnum):
    """A report of measurements is refused for one of these reasons."""

    NO_LEASE = "no_lease"
    NONCE = "nonce"
    EXPIRED = "expired"
    ANSWERED = "answered"
    UNFIT = "unfit"


class CacheResult(StrEnum):
    """A manifest was in the cache, had to be built from rows, or was given as it was kept, for the
    database was away."""

    HIT = "hit"
    MISS = "miss"
    KEPT = "kept"


class Removed(StrEnum):
    """Rows of these kinds are removed for their age."""

    BALLOT = "ballot"
    MEASUREMENT = "measurement"
    LEASE = "lease"
    SESSION = "session"
    IDENTITY = "identity"
    PROGRAM = "program"


MISSING = "missing"
"""Stands in place of a hit level: the zoo has no kernel for a workload, not even a default one."""

JOBS = (
    *("plan_space", "compile_batch", "verify_leases", "tally"),
    *("aggregate_by_family", "requeue", "train_model", "order_spaces", "remove_old"),
    "take_census",
)
PERIODIC = (
    *("requeue", "order_spaces", "aggregate_by_family", "take_census", "train_model"),
    "remove_old",
)
"""Tasks that the clock sends."""
QUEUES = ("compile", "aggregate")
TABLES = (
    *("measurement", "lease", "lease_item", "ballot", "agent_session", "identity"),
    *("device_class", "candidate", "artifact", "page_failure", "wrong_output"),
    "page_load",
)
"""These tables grow with what strangers send, or are written by the compiler."""
ENGINES = ("Chromium", "Firefox", "Safari", "WebKit")
OTHER = "other"
NO_ROUTE = "none"
"""The route of a request that no route answers."""
MOST_MODELS = 100
"""Models that have a series of their own: those that pages ask for most."""

LABEL_VALUES: Mapping[str, tuple[str, ...]] = {
    "target": tuple(TargetKind),
    "stage": tuple(CompileStage),
    "result": tuple(CompileOutcome),
    "outcome": tuple(Outcome),
    "verdict": tuple(Verdict),
    "reason": tuple(RefusalReason),
    "cache": tuple(CacheResult),
    "removed": tuple(Removed),
    "level": (*HitLevel, MISSING),
    "state": tuple(EntryState),
    "coverage": (MISSING, EntryState.PROVISIONAL, EntryState.CONFIRMED),
    "task": JOBS,
    "periodic": PERIODIC,
    "queue": QUEUES,
    "table": TABLES,
    "engine": (*ENGINES, OTHER),
    "purge": ("hard", "soft"),
    "status": ("1xx", "2xx", "3xx", "4xx", "5xx"),
}
"""Every label but `route` and `model`."""

_MS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_WAIT = (0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0)

# The gateway's.

HTTP_REQUESTS = Counter(
    "kernelzoo_http_requests", "Requests answered, by template of their route", ("route", "status")
)
HTTP_REQUEST_DURATION = Histogram(
    "kernelzoo_http_request_duration_seconds",
    "Duration from a request to the last byte of its answer; a poll for a lease waits up to 25 s",
    ("route",),
    buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0),
)
MANIFEST_DURATION = Histogram(
    "kernelzoo_manifest_duration_seconds",
    "Duration of finding a manifest in the cache or building it from rows",
    ("cache",),
    buckets=(0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5),
)
MANIFEST_KERNELS = Counter(
    "kernelzoo_manifest_kernels",
    "Kernels named in manifests, by the step of the fallback chain that they came from",
    ("level",),
)
MANIFESTS_SHED = Counter(
    "kernelzoo_manifests_shed", "Manifests that were not built, for there was too much to do"
)
ARTIFACT_SENT_BYTES = Counter(
    "kernelzoo_artifact_sent_bytes", "Bytes of kernels sent; caches before the gateway send more",
    ("target",),
)  # fmt: skip
BLOB_SENT_BYTES = Counter(
    "kernelzoo_blob_sent_bytes",
    "Bytes of the files of models that were asked for, a part as the whole; caches send more",
)
PAGE_LOADS_LOST = Counter(
    "kernelzoo_page_loads_lost", "Page loads that had no place in memory to be counted in"
)
SESSIONS = Counter("kernelzoo_sessions", "Sessions of agents opened", ("engine", "target"))
LEASES = Counter("kernelzoo_leases", "Leases granted", ("target",))
LEASED_CANDIDATES = Counter("kernelzoo_leased_candidates", "Candidates lent", ("target",))
POLLS_WAITING = Gauge(
    "kernelzoo_polls_waiting",
    "Agents whose request for a lease waits for a candidate",
    multiprocess_mode="livesum",
)
QUEUE_STREAMS = Gauge(
    "kernelzoo_queue_streams",
    "Pages that are sent candidates to tune themselves with",
    multiprocess_mode="livesum",
)
QUEUED_KERNELS = Counter(
    "kernelzoo_queued_kernels", "Candidates sent to pages that tune themselves"
)
MEASUREMENTS_ACCEPTED = Counter(
    "kernelzoo_measurements_accepted", "Measurements stored, by what the agent says", ("outcome",)
)
MEASUREMENTS_REFUSED = Counter(
    "kernelzoo_measurements_refused", "Measurements refused, by the fault of their report",
    ("reason",),
)  # fmt: skip
BALLOTS = Counter("kernelzoo_ballots", "Ballots filed; a later one replaces its identity's earlier")
BALLOTS_REFUSED = Counter("kernelzoo_ballots_refused", "Ballots that name what was not measured")
CONNECTION_POOL_WAIT = Histogram(
    "kernelzoo_connection_pool_wait_seconds",
    "Wait for a connection to PostgreSQL from the gateway's pool",
    buckets=(0.0005, 0.002, 0.01, 0.05, 0.25, 1.0, 5.0, 10.0),
)
CONNECTION_POOL_TIMEOUTS = Counter(
    "kernelzoo_connection_pool_timeouts", "Requests that got no connection to PostgreSQL in time"
)
PURGES = Counter(
    "kernelzoo_purges",
    "Times that caches before the gateway were told: hard, to forget what was denied; soft, to ask "
    "again",
    ("purge",),
)
PURGE_FAILURES = Counter(
    "kernelzoo_purge_failures", "Times that caches could not be told; they are told again"
)

# Of everybody who sends jobs.

JOBS_SENT = Counter("kernelzoo_jobs_sent", "Messages handed to the broker", ("task",))
JOBS_LOST = Counter(
    "kernelzoo_jobs_lost", "Messages that the broker did not take; their rows are requeued",
    ("task",),
)  # fmt: skip

# The workers'.

QUEUE_WAIT = Histogram(
    "kernelzoo_queue_wait_seconds",
    "Wait from sending a message to the start of its task",
    ("task",),
    buckets=_WAIT,
)
TASK_DURATION = Histogram(
    "kernelzoo_task_duration_seconds",
    "Duration of a task, from its start to its end",
    ("task",),
    buckets=_WAIT,
)
TASK_FAILURES = Counter(
    "kernelzoo_task_failures", "Tasks that ended in an error, after their retries", ("task",)
)
COMPILE_DURATION = Histogram(
    "kernelzoo_compile_duration_seconds",
    "Duration of compiling one candidate, by stage",
    ("target", "stage"),
    buckets=_MS,
)
CANDIDATES = Counter(
    "kernelzoo_candidates", "Candidates that a worker is done with", ("target", "result")
)
VERDICTS = Counter(
    "kernelzoo_verdicts", "Measurements judged by recomputing entries of their output", ("verdict",)
)
PROMOTIONS = Counter(
    "kernelzoo_promotions", "Versions of zoo entries published, by their state", ("state",)
)
ROLLBACKS = Counter("kernelzoo_rollbacks", "Zoo entries brought back to an earlier version")
ROWS_REMOVED = Counter(
    "kernelzoo_rows_removed", "Rows removed as older than they are kept for", ("removed",)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseGauge:
    """A gauge that is read from PostgreSQL when the gateway is scraped; all gateways say the same,
    so take the `max` over them.
    """

    name: str
    help: str
    label: str = ""


QUEUE_DEPTH = DatabaseGauge(
    name="kernelzoo_queue_depth", help="Rows that wait for a worker", label="queue"
)
QUEUE_OLDEST_AGE = DatabaseGauge(
    name="kernelzoo_queue_oldest_age_seconds",
    help="Age of the oldest row that waits for a worker",
    label="queue",
)
AGENTS_ONLINE = DatabaseGauge(
    name="kernelzoo_agents_online",
    help="Identities that opened a session or were lent candidates within ten minutes",
    label="engine",
)
ZOO_ENTRIES = DatabaseGauge(
    name="kernelzoo_zoo_entries",
    help="Versions of zoo entries; of those that are retired, what PostgreSQL estimates",
    label="state",
)
MODELS = DatabaseGauge(name="kernelzoo_models", help="Models that are registered")
MODEL_CONFIRMED = DatabaseGauge(
    name="kernelzoo_model_confirmed_ratio",
    help="Share of the operations of a model whose kernels are confirmed, over the classes of "
    "pages that asked for it on WebAssembly, by their number; of the models asked for most",
    label="model",
)
COVERAGE_KEYS = DatabaseGauge(
    name="kernelzoo_coverage_keys",
    help="Workloads on device classes that measured them or whose pages asked for them",
    label="coverage",
)
COVERAGE_PAGE_LOADS = DatabaseGauge(
    name="kernelzoo_coverage_page_loads",
    help="Kernels that page loads asked for, by what there is of their key",
    label="coverage",
)
SERVED_SPEED_UP = DatabaseGauge(
    name="kernelzoo_served_speed_up_ratio",
    help="Speed of confirmed kernels over the default ones, each key by its page loads",
)
SAVED_SECONDS = DatabaseGauge(
    name="kernelzoo_saved_seconds",
    help="What confirmed kernels saved if each page load ran each of its kernels once",
)
DATABASE_SIZE = DatabaseGauge(
    name="kernelzoo_database_size_bytes", help="Size of the database on disk, with everything in it"
)
TABLE_SIZE = DatabaseGauge(
    name="kernelzoo_table_size_bytes",
    help="Size of a table with its indexes, on disk",
    label="table",
)
DATABASE_UP = DatabaseGauge(
    name="kernelzoo_database_up", help="1 where PostgreSQL answers the gateway, else 0"
)

PERIODIC_TASK_AGE = DatabaseGauge(
    name="kernelzoo_periodic_task_age_seconds",
    help="Age of the last end of a task that the clock sends; of take_census, the age of all that "
    "is counted once a minute",
    label="periodic",
)

COUNTED = (
    *(QUEUE_DEPTH, QUEUE_OLDEST_AGE, AGENTS_ONLINE, ZOO_ENTRIES, MODELS, MODEL_CONFIRMED),
    *(COVERAGE_KEYS, COVERAGE_PAGE_LOADS, SERVED_SPEED_UP, SAVED_SECONDS),
    *(DATABASE_SIZE, TABLE_SIZE),
)
"""Once a minute by the task `take_census`."""
ASKED = (*COUNTED, PERIODIC_TASK_AGE, DATABASE_UP)

GATEWAY: tuple[MetricWrapperBase, ...] = (
    *(HTTP_REQUESTS, HTTP_REQUEST_DURATION, MANIFEST_DURATION, MANIFEST_KERNELS),
    *(ARTIFACT_SENT_BYTES, BLOB_SENT_BYTES, PAGE_LOADS_LOST, MANIFESTS_SHED),
    *(SESSIONS, LEASES, LEASED_CANDIDATES),
    *(POLLS_WAITING, QUEUE_STREAMS, QUEUED_KERNELS),
    *(MEASUREMENTS_ACCEPTED, MEASUREMENTS_REFUSED, BALLOTS, BALLOTS_REFUSED),
    *(CONNECTION_POOL_WAIT, CONNECTION_POOL_TIMEOUTS, JOBS_SENT, JOBS_LOST),
    *(PURGES, PURGE_FAILURES),
)
COMPILE: tuple[MetricWrapperBase, ...] = (
    *(JOBS_SENT, JOBS_LOST, QUEUE_WAIT, TASK_DURATION, TASK_FAILURES),
    *(COMPILE_DURATION, CANDIDATES),
)
AGGREGATE: tuple[MetricWrapperBase, ...] = (
    *(JOBS_SENT, JOBS_LOST, QUEUE_WAIT, TASK_DURATION, TASK_FAILURES),
    *(VERDICTS, PROMOTIONS, ROLLBACKS, ROWS_REMOVED),
)


def begin_at_zero(metrics: Iterable[MetricWrapperBase]) -> None:
    """Exports every combination of labels from the start: Prometheus takes a series that appears
    with 1 for one that has always been 1, and would miss the first event of each kind.
    """
    for metric in metrics:
        if isinstance(metric, Gauge):
            # A process may find the file of an earlier one of its number.
            metric.set(0)
        names = metric._labelnames  # noqa: SLF001 - the library has no public way to ask
        if names:
            # Routes come as they are asked for.
            for values in product(*(LABEL_VALUES.get(name, (NO_ROUTE,)) for name in names)):
                metric.labels(*values)


def engine_label(name: str) -> str:
    """The engine's name where it is one that our client tells, else `other`."""
    return name if name in ENGINES else OTHER
