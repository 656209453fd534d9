"""The script of docs/web-developers.md, as it stands there, where all goes well and where not."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event

import pytest
from playwright.sync_api import BrowserContext, Route

from cli.gateway_client import GatewayClient
from cli.stack.ports import free_port
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.serving import serving
from tests.browser.sites import site
from tests.running import eventually

DOCUMENT = (Path(__file__).parents[2] / "docs/web-developers.md").read_text()
KEY = "matmul:f32:m8k8n8"
(RECIPE,) = re.findall(r"```html\n(<script type=\"module\">.+?)```", DOCUMENT, re.DOTALL)
RECIPE = RECIPE.replace("matmul:f32:m384k768n768", KEY)
# What a page has without a zoo says so by its first entry.
OWN = """<!doctype html><title>somebody's site</title><button>multiply</button><script>
  const activations = new Float32Array(64).fill(1);
  const weights = new Float32Array(64).fill(1);
  const ownMultiply = () => new Float32Array(64).fill(-1);
  const show = (output) => { document.title = `${output[0]}`; };
</script>"""
FORBIDDEN = "script-src http://127.0.0.1:* 'unsafe-inline'; connect-src *"
ALLOWED = FORBIDDEN.replace(";", " 'wasm-unsafe-eval';")


@pytest.fixture(scope="module", autouse=True)
def registered(stack: Stack) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        job = gateway.register(Workload.parse(KEY), TargetKind.WASM).job
        eventually(lambda: gateway.job(job).compiled > 0, "a compiled kernel")


@contextmanager
def hanging() -> Iterator[str]:
    """A server that takes a request and never answers it."""
    over = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            over.wait()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}"
        over.set()


def multiplied(
    context: BrowserContext, script: str, *, warned: str | None, policy: str | None = None
) -> str:
    """Returns what a click shows, once the console has said something with `warned` in it."""
    headers = {} if policy is None else {"Content-Security-Policy": policy}
    said: list[str] = []
    with site(headers, (OWN + script).encode()) as address:
        page = context.new_page()
        page.on("console", lambda line: said.append(line.text))
        page.goto(address)
        if warned is not None:
            # Events of the page are heard while something is asked of it.
            eventually(
                lambda: bool(page.evaluate("1")) and any(warned in each for each in said),
                f"{warned!r} on the console",
            )
        page.click("button")
        return page.title()


def test_a_page_goes_on_with_its_own_code_until_the_kernel_is_there(
    stack: Stack, context: BrowserContext
) -> None:
    script = RECIPE.replace("https://zoo.example", stack.url)
    headers = {"Content-Security-Policy": ALLOWED}
    with site(headers, (OWN + script).encode()) as address:
        page = context.new_page()
        page.goto(address)

        def clicked() -> str:
            page.click("button")
            return page.title()

        assert clicked() in ("-1", "8")
        eventually(lambda: clicked() == "8", "the kernel of the zoo")


def test_where_nobody_listens_the_page_runs_its_own_code(context: BrowserContext) -> None:
    script = RECIPE.replace("https://zoo.example", f"http://127.0.0.1:{free_port()}")
    assert multiplied(context, script, warned="sdk.js") == "-1"


def test_while_a_zoo_does_not_answer_the_page_runs_its_own_code(context: BrowserContext) -> None:
    with hanging() as address:
        script = RECIPE.replace("https://zoo.example", address)
        assert multiplied(context, script, warned=None) == "-1"


def test_where_something_else_answers_the_page_runs_its_own_code(
    stack: Stack, context: BrowserContext
) -> None:
    with site({"Access-Control-Allow-Origin": "*"}) as elsewhere:
        script = RECIPE.replace("https://zoo.example/client", f"{stack.url}/client")
        script = script.replace("https://zoo.example", elsewhere)
        assert multiplied(context, script, warned="is not a zoo") == "-1"


def test_a_policy_that_forbids_webassembly_is_named_and_the_page_runs_its_own_code(
    stack: Stack, context: BrowserContext
) -> None:
    script = RECIPE.replace("https://zoo.example", stack.url)
    lacking = "lacks 'wasm-unsafe-eval'"
    assert multiplied(context, script, warned=lacking, policy=FORBIDDEN) == "-1"


def test_the_name_with_the_hash_is_the_same_script_and_its_integrity_holds(
    stack: Stack, context: BrowserContext
) -> None:
    """And it comes compressed, from a zoo behind a path of a proxy's."""
    script = """<script type="module" crossorigin src="{client}/{file}"
      integrity="{integrity}"></script>
    <script type="module">
      import {{ KernelZoo }} from "{client}/{file}";
      const zoo = await KernelZoo.open("/zoo");
      const kernel = await zoo.kernel("matmul:f32:m8k8n8");
      document.title = kernel.run({{ a: activations, b: weights }})[0];
    </script>"""
    client = f"{stack.url}/client"
    answers = {}
    with site({}, OWN.encode()) as address:
        page = context.new_page()
        page.on("response", lambda answer: answers.update({answer.url: answer.headers}))

        def forward(route: Route) -> None:
            path = route.request.url.removeprefix(f"{address}/zoo")
            route.fulfill(response=route.fetch(url=f"{stack.url}{path}"))

        page.route(f"{address}/zoo/**", forward)
        page.goto(address)
        told = page.evaluate("async (url) => (await fetch(url)).json()", f"{client}/sdk.json")
        page.set_content(OWN + script.format(client=client, **told))
        page.wait_for_function("document.title === '8'")
    headers = answers[f"{client}/{told['file']}"]
    assert headers["content-encoding"] in ("br", "gzip")
    assert "immutable" in headers["cache-control"]
