"""Everything that is set from outside, read once in a process's `main` and passed down.

Each field is the environment variable `KERNELZOO_<NAME>`.
"""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from kernelzoo.domain.trust import ALL_DEFENCES, Defence

_REPOSITORY = Path(__file__).parents[1]


class WorkerSettings(BaseSettings):
    """What workers read: no key of the gateway's. Durations are in seconds.

    `alive_file` is touched while a worker's loop turns; unset, it is not. Prometheus reads metrics
    from `metrics_port`; unset, they are not served.
    """

    model_config = SettingsConfigDict(env_prefix="KERNELZOO_", frozen=True)

    database_url: str
    redis_url: str
    log_json: bool = True
    alive_file: Path | None = None
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65535)

    quorum: int = Field(default=5, ge=1)
    # Largest share of identities that may collude; 0 where all agents are one's own.
    liars: float = Field(default=0.2, ge=0, le=0.45)
    # Fewer than all are for simulations, which show what each is worth.
    defences: frozenset[Defence] = ALL_DEFENCES
    compile_batch: int = Field(default=16, ge=1, le=64)
    stalled_s: float = Field(default=5, gt=0)


class Settings(WorkerSettings):
    """What the gateway reads. Durations are in seconds."""

    operator_key: SecretStr
    token_secret: SecretStr
    # Seeds of Ed25519 keys in base64url, with commas between them: each signs every manifest.
    # Without any, manifests are not signed, and pages that pin a key refuse them.
    signing_key: SecretStr = SecretStr("")
    client_dist: Path = _REPOSITORY / "client" / "dist"

    session_s: int = Field(default=3600, ge=60)
    lease_s: int = Field(default=60, ge=1)
    identities_per_network_per_day: int = Field(default=20, ge=1)
    failures_per_network_per_day: int = Field(default=50, ge=1)
    # As `limits` writes them; '' is no limit. The operator's own requests are not counted.
    sessions_rate: str = "120/minute"
    agent_rate: str = "1200/minute"
    application_rate: str = "120/minute"
    max_request_bytes: int = Field(default=1 << 20, ge=1024)
