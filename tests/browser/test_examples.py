"""The examples where something is amiss: each says what, and what to do about it."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from cli.demo.examples import EXAMPLES, served_examples
from cli.demo.page import PageResult
from cli.stack.ports import free_port
from tests.browser.browsers import PHONE, widest

NOTHING = f"http://127.0.0.1:{free_port()}"
CLIENT = Path(__file__).parents[2] / "client" / "dist"
SHOWN = "!document.querySelector('#error').hidden"
SDK = """
const kernel = (sha256) => {
  const inputs = { a: new Float32Array(16), b: new Float32Array(16) };
  const c = new Float32Array(16);
  const run = () => {
    for (let at = 0; at < 16; at++) {
      c[at] = 0;
      for (let x = 0; x < 4; x++) c[at] += inputs.a[4 * (at >> 2) + x] * inputs.b[4 * x + (at & 3)];
    }
    return c;
  };
  const info = { workload: "matmul:f32:m4k4n4", backend: "wasm", backendReason: "", level: "exact",
    state: "confirmed", evidence: { ballots: 5 }, flops: 128, manifestMs: 1, fallbackReason: null };
  const shapes = { a: [4, 4], b: [4, 4], c: [4, 4] };
  return { gpu: null, inputs, shapes, run, runAsync: async () => run(), info: { ...info, sha256 } };
};
export const measurePeakGflops = () => 1;
export const KernelZoo = { open: async () => ({
  kernel: async (key, { use } = {}) => kernel(use === "fallback" ? "DEFAULT" : "SERVED"),
}) };
"""
"""An SDK whose zoo serves the kernel of hash `SERVED` beside the default."""


def said_by(browser: Browser, example: str, query: str) -> str:
    page: Page = browser.new_page()
    with served_examples(EXAMPLES) as address:
        page.goto(f"{address}/{example}/{query}")
        page.wait_for_function(SHOWN)
        assert page.inner_text("#status") == "", "nothing seems to be under way"
        told = page.inner_text("#error")
    page.close()
    return told


@pytest.mark.parametrize("example", ["kernels", "network", "tuning", "digits"])
@pytest.mark.parametrize("path", ["", "/zoo", "/zoo/"])
def test_where_no_zoo_answers_the_page_says_which_and_how_to_start_one(
    lone_browser: Browser, example: str, path: str
) -> None:
    said = said_by(lone_browser, example, f"?zoo={NOTHING}{path}")
    zoo = f"{NOTHING}{path}".removesuffix("/")
    assert said == (
        f"There is no SDK at {zoo}/client/sdk.js. "
        "Start a zoo with `kernelzoo up`, or name another: ?zoo=https://zoo.example"
    )


def test_a_page_without_its_bundle_says_which_commands_write_it(lone_browser: Browser) -> None:
    said = said_by(lone_browser, "digits", "")
    assert "/digits/sdk/sdk.js. `kernelzoo zoo sdk` and `kernelzoo zoo bundle` write" in said


def test_a_conversation_without_its_tokenizer_says_where_to_copy_it_from(
    lone_browser: Browser,
) -> None:
    """Nobody answers the page's question for the model before that."""
    page = lone_browser.new_page()
    with served_examples(EXAMPLES) as address, socket.create_server(("127.0.0.1", 0)) as silent:
        page.goto(f"{address}/chat/?zoo=http://127.0.0.1:{silent.getsockname()[1]}")
        page.wait_for_function(SHOWN)
        told = page.inner_text("#error")
    page.close()
    missing = "/chat/smollm/ has no tokenizer.json."
    assert told.endswith(f"{missing} Copy it there from the folder of the model.")


@pytest.mark.parametrize(
    ("served", "headline", "bars"),
    [
        ("DEFAULT", "Same kernel", ["From the zoo, the default", "Limit of the core"]),
        ("OTHER", r"\d+\.\d\d×", ["Default kernel", "From the zoo", "Limit of the core"]),
    ],
)
def test_a_factor_is_shown_only_between_two_kernels(
    lone_browser: Browser, tmp_path: Path, served: str, headline: str, bars: list[str]
) -> None:
    """A kernel that is timed twice differs from itself by noise."""
    (tmp_path / "sdk.js").write_text(SDK.replace("SERVED", served))
    page = lone_browser.new_page()
    with served_examples(EXAMPLES, {"/zoo/client/": tmp_path}) as address:
        page.goto(f"{address}/kernels/?zoo=/zoo&workload=matmul:f32:m4k4n4")
        page.wait_for_function("globalThis.kernelzooResults || globalThis.kernelzooError")
        shown = page.inner_text(".headline")
        names = page.locator(".row .name").all_inner_texts()
        result = PageResult.model_validate(page.evaluate("kernelzooResults[0]"))
    page.close()
    assert result.correct
    assert re.fullmatch(headline, shown), shown
    assert names == bars
    assert result.same_kernel is (served == "DEFAULT")
    assert (result.default_gflops == result.zoo_gflops) is result.same_kernel


@pytest.mark.parametrize("example", ["kernels", "network", "tuning", "digits", "chat"])
def test_an_example_is_no_wider_than_a_phone(lone_browser: Browser, example: str) -> None:
    page = lone_browser.new_page(viewport=PHONE)
    with served_examples(EXAMPLES) as address:
        page.goto(f"{address}/{example}/?zoo={NOTHING}")
        page.wait_for_function(SHOWN)
        assert widest(page) == (PHONE["width"], [])
    page.close()


def test_results_of_kernels_are_no_wider_than_a_phone(
    lone_browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "sdk.js").write_text(SDK.replace("SERVED", "OTHER"))
    page = lone_browser.new_page(viewport=PHONE)
    with served_examples(EXAMPLES, {"/zoo/client/": tmp_path}) as address:
        page.goto(f"{address}/kernels/?zoo=/zoo&workload=matmul:f32:m4k4n4")
        page.wait_for_function("globalThis.kernelzooResults || globalThis.kernelzooError")
        assert page.locator(".headline").is_visible()
        assert widest(page) == (PHONE["width"], [])
    page.close()


@contextmanager
def silent_zoo() -> Iterator[str]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


@pytest.mark.parametrize("example", ["kernels", "network", "tuning", "digits"])
def test_a_zoo_that_never_answers_is_said_to_be_slow_and_then_given_up(
    lone_browser: Browser, example: str
) -> None:
    page = lone_browser.new_page()
    page.clock.install()
    with served_examples(EXAMPLES) as address, silent_zoo() as zoo:
        with page.expect_request(f"{zoo}/client/sdk.js"):
            page.goto(f"{address}/{example}/?zoo={zoo}", wait_until="commit")
        host = zoo.removeprefix("http://")
        slow = f"Still waiting: {host} is slow to answer…"
        assert page.inner_text("#status") != slow
        page.clock.run_for(6_000)
        expect(page.locator("#status")).to_have_text(slow)
        page.clock.run_for(25_000)
        page.wait_for_function(SHOWN)
        assert page.inner_text("#status") == ""
        assert page.inner_text("#error") == (
            f"No answer from {zoo}/client/sdk.js within 30 s. "
            "Start a zoo with `kernelzoo up`, or name another: ?zoo=https://zoo.example"
        )
    page.close()


def test_a_zoo_that_stops_answering_after_its_sdk_is_given_up_too(lone_browser: Browser) -> None:
    page = lone_browser.new_page()
    page.route("**/zoo/v1/**", lambda _: None)
    with served_examples(EXAMPLES, {"/zoo/client/": CLIENT}) as address:
        page.goto(f"{address}/kernels/?zoo=/zoo")
        expect(page.locator("#status")).to_contain_text("is slow to answer", timeout=20_000)
        page.wait_for_function(SHOWN)
        assert page.inner_text("#status") == ""
        told = page.inner_text("#error")
    page.close()
    assert told == f"No answer from {address} (signal timed out). Is it running?"


def test_a_conversation_tells_of_a_slow_zoo_and_gives_up_on_a_silent_one(
    lone_browser: Browser,
) -> None:
    page = lone_browser.new_page()
    page.route("**/smollm/*", lambda _: None)
    with served_examples(EXAMPLES) as address, silent_zoo() as zoo:
        page.goto(f"{address}/chat/?zoo={zoo}")
        expect(page.locator("#status")).to_contain_text("is slow to answer", timeout=20_000)
        page.wait_for_function(SHOWN)
        assert page.inner_text("#status") == ""
        told = page.inner_text("#error")
    page.close()
    assert told == f"No answer from {zoo} (signal timed out). Is it running?"
