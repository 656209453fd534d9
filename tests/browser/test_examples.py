"""The examples where something is amiss: each says what, and what to do about it."""

import socket

import pytest
from playwright.sync_api import Browser, Page

from cli.demo.examples import EXAMPLES, served_examples
from cli.stack.ports import free_port

NOTHING = f"http://127.0.0.1:{free_port()}"
SHOWN = "!document.querySelector('#error').hidden"


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
