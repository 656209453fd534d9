"""Everything that is set from outside, read once in a process's `main` and passed down.

Each field is the environment variable `KERNELZOO_<NAME>`.
"""

import os
from pathlib import Path
from typing import Any

import structlog
from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from kernelzoo.domain.trust import ALL_DEFENCES, Defence, Trust

log = structlog.get_logger(__name__)

PREFIX = "KERNELZOO_"

_REPOSITORY = Path(__file__).parents[1]
_RENAMED = {"KERNELZOO_LIARS": "max_malicious_share"}
"""Variables under an old name, which is still read, and their fields."""


class WorkerSettings(BaseSettings):
    """Workers read these, and no key of the gateway's. Durations are in seconds.

    `alive_file` is touched while a worker's loop turns; unset, it is not. Prometheus reads metrics
    from `metrics_port`; unset, they are not served.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    database_url: str
    redis_url: str
    log_json: bool = True
    alive_file: Path | None = None
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65535)

    # Whose measurements are taken, and counted: "operator", "applications" or "crowd".
    trust: Trust = Trust.APPLICATIONS
    quorum: int = Field(default=5, ge=1)
    # Largest share of identities that may collude; 0 where all agents are one's own.
    max_malicious_share: float = Field(default=0.2, ge=0, le=0.45)
    # Networks of strangers that confirm what neither the operator's agents nor another class bears
    # out.
    minimum_networks: int = Field(default=10, ge=1)
    # Fewer than all are for simulations, which show what each is worth.
    defences: frozenset[Defence] = ALL_DEFENCES
    compile_batch: int = Field(default=16, ge=1, le=64)
    stalled_s: float = Field(default=5, gt=0)
    # Older measurements, leases and ballots are removed, but for what the vote stands on.
    retention_days: int = Field(default=180, ge=1, le=36500)

    @model_validator(mode="before")
    @classmethod
    def _read_old_names(cls, told: dict[str, Any]) -> dict[str, Any]:
        for old, field in _RENAMED.items():
            if old in os.environ:
                new = f"{PREFIX}{field.upper()}"
                log.warning("a setting has a new name; the old one is still read", old=old, new=new)
                told = {field: os.environ[old], **told}
        return told


class Settings(WorkerSettings):
    """The gateway reads these. Durations are in seconds."""

    operator_key: SecretStr
    token_secret: SecretStr
    # Seeds of Ed25519 keys in base64url, with commas between them: each signs every manifest.
    # Without any, manifests are not signed, and pages that pin a key refuse them.
    signing_key: SecretStr = SecretStr("")
    # Where files of models are kept, by their hash; gateways share it. Without it no model can be
    # registered.
    models_dir: Path | None = None
    max_blob_bytes: int = Field(default=1 << 32, ge=1024)
    # What pages were given last is kept here, at most so many bytes, and given again while the
    # database is away. Each gateway has its own. Without it nothing is served then.
    standby_dir: Path | None = None
    standby_bytes: int = Field(default=1 << 30, ge=1 << 20)
    # A cache before the gateway that is told what to forget: "varnish", "fastly" or "cloudflare";
    # '' is none. `purge_url`: the addresses of all Varnishes, with commas between them; of the
    # others, where it is not the platform's own. `purge_service`: Fastly's service or Cloudflare's
    # zone.
    purge: str = ""
    purge_url: str = ""
    purge_service: str = ""
    purge_token: SecretStr = SecretStr("")
    client_dist: Path = _REPOSITORY / "client" / "dist"

    # Of the zoo's own pages, with commas between them, as https://zoo.example. Without any, pages
    # whose origin names the host that they ask are its own.
    origins: str = ""

    # Proxies whose X-Forwarded-For is believed: addresses and CIDRs, with commas between them. The
    # visitor's address is the entry so many from the end as there are proxies in a row.
    trusted_proxies: str = ""
    trusted_hops: int = Field(default=1, ge=1, le=16)
    # Past them, requests are answered with 503, and connections are ended at once.
    connections: int = Field(default=4096, ge=1)
    connections_per_network: int = Field(default=512, ge=1)
    # Of strangers that wait for work, at each gateway.
    polls_per_network: int = Field(default=256, ge=1)

    # What an identity shows before it speaks for other classes than its own, any one of these: some
    # of proof-of-work, turnstile, hcaptcha and private-token, with commas between them; '' asks for
    # nothing, and only the operator's agents vouch. A proof takes 2 to the power of its bits
    # hashes. Other URLs than the platforms' own are for who speaks their protocol. Issuers of
    # private tokens are written as name=token-key, with commas between them.
    attestation: str = ""
    proof_of_work_bits: int = Field(default=18, ge=8, le=32)
    turnstile_secret: SecretStr = SecretStr("")
    turnstile_url: str = ""
    hcaptcha_secret: SecretStr = SecretStr("")
    hcaptcha_url: str = ""
    private_token_issuers: str = ""

    session_s: int = Field(default=900, ge=60)
    lease_s: int = Field(default=60, ge=1)
    # Of a network's strangers at one time; fewer after those that were not answered.
    leases_per_network: int = Field(default=16, ge=1)
    identities_per_network_per_day: int = Field(default=20, ge=1)
    # Device classes that strangers may claim: a browser is of two, of wasm and of webgpu.
    classes_per_identity_per_day: int = Field(default=6, ge=1)
    classes_per_network_per_day: int = Field(default=24, ge=1)
    failures_per_network_per_day: int = Field(default=50, ge=1)
    # Candidates that strangers are lent, and so measurements that are stored of them: in a network,
    # on a device class, and of a workload on a class.
    lent_per_network_per_day: int = Field(default=5_000, ge=1)
    lent_per_class_per_day: int = Field(default=20_000, ge=1)
    lent_per_key_per_day: int = Field(default=2_000, ge=1)
    # The part of the latter two that one network may have, of what other networks left of them.
    lent_share: float = Field(default=0.1, gt=0, le=1)
    # As `limits` writes them; '' is no limit. The operator's own requests are not counted.
    sessions_rate: str = "120/minute"
    reports_rate: str = "300/minute"
    agent_rate: str = "1200/minute"
    application_rate: str = "120/minute"
    max_request_bytes: int = Field(default=1 << 20, ge=1024)
