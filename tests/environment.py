"""Says which variables a process may be given, and which it must."""

from collections.abc import Iterable

from kernelzoo.settings import Settings, WorkerSettings

PREFIX = "KERNELZOO_"

# What each process reads; the clock reads what a worker does.
READ: dict[str, type[WorkerSettings]] = {
    "gateway": Settings,
    "compile": WorkerSettings,
    "aggregate": WorkerSettings,
    "clock": WorkerSettings,
}
# These read their one variable by themselves.
SINGLE = {"migrate": "KERNELZOO_DATABASE_URL", "fleet": "KERNELZOO_OPERATOR_KEY"}

# What they may be given beside it.
OPTIONAL = {"migrate": {"KERNELZOO_GRANT_PASSWORD"}}

# Variables of the programs below us, and of nobody else.
FOREIGN = {
    "CELERY_WORKER_CONCURRENCY": {"compile", "aggregate"},
}

SECRETS = {
    *("KERNELZOO_OPERATOR_KEY", "KERNELZOO_TOKEN_SECRET", "KERNELZOO_SIGNING_KEY"),
    *("KERNELZOO_DATABASE_URL", "KERNELZOO_GRANT_PASSWORD"),
}


def _names(settings: type[WorkerSettings], *, required: bool) -> set[str]:
    return {
        f"{PREFIX}{name.upper()}"
        for name, field in settings.model_fields.items()
        if field.is_required() or not required
    }


def _alone(process: str) -> set[str]:
    return {SINGLE[process], *OPTIONAL.get(process, ())}


def unknown(process: str, given: Iterable[str]) -> set[str]:
    """Variables that no program in the process reads.

    Settings of the gateway may be given to workers, too: one list of settings serves all.
    """
    known = _names(Settings, required=False) if process in READ else _alone(process)
    foreign = {name for name, processes in FOREIGN.items() if process in processes}
    return set(given) - known - foreign


def missing(process: str, given: Iterable[str]) -> set[str]:
    needed = _names(READ[process], required=True) if process in READ else {SINGLE[process]}
    return needed - set(given)


def needless_secrets(process: str, given: Iterable[str]) -> set[str]:
    """Keys that the process does not read."""
    read = _names(READ[process], required=False) if process in READ else _alone(process)
    return (set(given) & SECRETS) - read
