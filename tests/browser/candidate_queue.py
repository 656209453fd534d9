"""A static host of models that has a queue of candidates as a gateway does."""

from json import dumps
from pathlib import Path
from typing import Any

from fixtures.model_site import described
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.candidate import Candidate
from tests.browser.model_host import Handler, Host

GOLDEN = ".golden"
REPOSITORY = Path(__file__).parents[2]


class Queue(Host):
    """The host, with a queue of candidates. `cut`: each stream breaks off after its lines. `away`:
    parts of addresses that it does not answer for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lines: list[dict[str, Any]] = []
        self.cut = False
        self.away: tuple[str, ...] = ()
        self.asked = 0
        self.zoo = self.folder
        """Models lie here."""

    def offer(self, *candidates: tuple[Candidate, bytes | None], cut: bool = False) -> None:
        """Candidates of one workload; other bytes than a candidate's are of a wrong kernel."""
        bodies: dict[str, Artifact] = {}
        kernels = [described(candidate, body, bodies) for candidate, body in candidates]
        for name, artifact in bodies.items():
            file = f"{name}.{artifact.manifest.target}"
            (self.zoo / "v1" / "artifacts" / file).write_bytes(artifact.body)
        offered = [{"kernel": kernel, "expected": None} for kernel in kernels]
        key = candidates[0][0].workload.key
        self.lines = [{"workload": key, "cursor": "1", "candidates": offered}]
        self.cut = cut
        self.asked = 0


class QueueHandler(Handler):
    host: Queue

    def translate_path(self, path: str) -> str:
        if path.startswith("/examples/"):
            return str(REPOSITORY / path.partition("?")[0][1:])
        return super().translate_path(path)

    def do_POST(self) -> None:  # noqa: N802
        if self.path == "/away":
            self.host.away = ("/artifacts/", GOLDEN)
        super().do_POST()

    def do_GET(self) -> None:  # noqa: N802
        if any(part in self.path for part in self.host.away):
            self.close_connection = True
            return
        if "/candidates" not in self.path:
            super().do_GET()
            return
        self.host.asked += 1
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.end_headers()
        end = [] if self.host.cut else [{"end": "complete", "retry_s": 0, "cursor": "2"}]
        for line in [*self.host.lines, *end]:
            self.wfile.write(f"{dumps(line)}\n".encode())
