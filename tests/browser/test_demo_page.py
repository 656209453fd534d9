"""The demo's page where a busy machine makes it probe another class than the agents did."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cli.demo.page import MORE_PROBES, Visitor, kernels_of, visiting
from kernelzoo.serving import serving

FOUND = {
    "workload": "matmul:f32:m8k8n8",
    "votes": 5,
    "same_kernel": False,
    "manifestMs": 1.0,
    "default_gflops": 1.0,
    "zoo_gflops": 2.0,
    "limit_gflops": 3.0,
    "speedup": 2.0,
    "max_error": 0.0,
    "correct": True,
}
PAGE = b"""<!doctype html><script type="module">
const kept = localStorage.getItem("probed");
localStorage.setItem("probed", "once");
const answer = await fetch(`/found?kept=${kept !== null}`);
globalThis.kernelzooResults = await answer.json();
</script>"""


def test_a_page_that_probed_another_class_forgets_it_and_is_opened_again(tmp_path: Path) -> None:
    """It keeps what it probed, so that a mere reload would find the same."""
    levels = ["default", "common", "exact"]
    assert len(levels) == 1 + MORE_PROBES
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body, kind = PAGE, "text/html"
            if self.path.startswith("/found"):
                asked.append(self.path)
                found = [FOUND | {"level": levels[len(asked) - 1]}]
                body, kind = json.dumps(found).encode(), "application/json"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        visitor = Visitor(gpu=None, profile=tmp_path / "profile", log=tmp_path / "log")
        with visiting(visitor) as page:
            (result,) = kernels_of(page, f"http://127.0.0.1:{server.server_port}/")
    assert result.level == "exact"
    assert asked == ["/found?kept=false"] * 3
