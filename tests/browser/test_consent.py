"""A visitor of the agent page is asked, told and promised this, in real Chromium."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Request, Worker, expect

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.browsers import PHONE, widest
from tests.running import eventually, rows

EXTENTS = itertools.count(96, 16)
NO_SIMD = """WebAssembly.validate = () => false"""
DENIED = "Object.defineProperty(navigator, 'webdriver', { value: false })"


@pytest.fixture(autouse=True)
def job(stack: Stack) -> None:
    """Work that no visitor before has done."""
    workload = Workload.of("matmul", (64, 48, next(EXTENTS)))
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        gateway.register(workload, TargetKind.WASM)


@pytest.fixture
def page(stack: Stack, context: BrowserContext) -> Iterator[Page]:
    """The agent page of a visitor who has never been here."""
    opened = context.new_page()
    opened.goto(f"{stack.url}/agent?target=wasm")
    yield opened
    opened.close()


def phase(page: Page) -> str:
    return str(page.evaluate("kernelzooAgent.state.phase"))


def of_interface(request: Request) -> bool:
    return "/v1/" in request.url


def requests_of(page: Page) -> list[Request]:
    """Collects what the page and its worker ask of the gateway's interface from now on.

    Playwright adds to it only during a call of its own, so a wait for it has to make one.
    """
    asked: list[Request] = []
    page.context.on("request", lambda r: asked.append(r) if of_interface(r) else None)
    return asked


def heard_all(page: Page) -> None:
    """Returns when the test was told of every request that the page has made so far, as it is told
    of one that the page makes now.
    """
    with page.expect_response("**/healthz"):
        page.evaluate("fetch('/healthz')")


def _workers_of(page: Page) -> list[Worker]:
    """A browser takes a moment to end one, and tells it only while it answers something else."""
    heard_all(page)
    return page.workers


def see_profile(page: Page) -> dict[str, Any]:
    page.get_by_role("button", name="Start").click()
    page.get_by_role("heading", name="This would be sent").wait_for()
    shown: dict[str, Any] = json.loads(page.locator("#profile").inner_text())
    return shown


def agree(page: Page) -> None:
    see_profile(page)
    page.get_by_role("button", name="Send this and start").click()


def measured(page: Page) -> int:
    return int(page.evaluate("kernelzooAgent.events.filter((e) => e.type === 'measured').length"))


def notes(page: Page) -> dict[str, str]:
    kept: dict[str, str] = page.evaluate("({ ...localStorage })")
    return kept


def test_nothing_is_asked_of_the_gateway_before_the_visitor_agrees(
    stack: Stack, page: Page
) -> None:
    asked = requests_of(page)
    ((before,),) = rows(stack, "SELECT count(*) FROM agent_session")
    assert notes(page) == {}
    shown = see_profile(page)
    heard_all(page)
    assert phase(page) == "asking"
    assert asked == []
    assert rows(stack, "SELECT count(*) FROM agent_session") == [(before,)]
    with page.context.expect_event("request", of_interface, timeout=90_000):
        page.get_by_role("button", name="Send this and start").click()
    assert asked[0].url == f"{stack.url}/v1/sessions"
    assert asked[0].post_data_json == shown, "what was sent is not what was shown"


def test_a_visitor_who_declines_sends_nothing_and_is_asked_again(page: Page) -> None:
    asked = requests_of(page)
    see_profile(page)
    page.get_by_role("button", name="No, stop").click()
    page.get_by_role("button", name="Start").wait_for()
    heard_all(page)
    assert phase(page) == "consent"
    assert asked == []
    page.reload()
    page.get_by_role("button", name="Start").wait_for()
    heard_all(page)
    assert phase(page) == "consent"
    assert asked == []


def press(page: Page, button: str) -> None:
    pressed = page.get_by_role("button", name=button)
    pressed.focus()
    page.keyboard.press("Enter")
    pressed.wait_for(state="hidden")


def test_by_keyboard_the_focus_follows_to_what_replaces_a_button(page: Page) -> None:
    asking = page.get_by_role("heading", name="This would be sent")
    press(page, "Start")
    asking.wait_for()
    expect(asking).to_be_focused()
    press(page, "No, stop")
    expect(page.get_by_role("heading", name="Lend this device")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Start")).to_be_focused()
    page.keyboard.press("Enter")
    asking.wait_for()
    press(page, "Send this and start")
    expect(page.locator("#status")).to_be_focused()


def test_no_part_of_the_agent_page_is_wider_than_a_phone(page: Page) -> None:
    page.set_viewport_size(PHONE)
    assert widest(page) == (PHONE["width"], [])
    see_profile(page)
    assert widest(page) == (PHONE["width"], [])
    page.get_by_role("button", name="Send this and start").click()
    eventually(lambda: measured(page) > 3, "some measurements")
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert widest(page) == (PHONE["width"], [])


def test_a_link_that_starts_the_agent_is_no_consent(stack: Stack, context: BrowserContext) -> None:
    """Only a browser that is automated starts by its address."""
    context.add_init_script(DENIED)
    page = context.new_page()
    asked = requests_of(page)
    page.goto(f"{stack.url}/agent?start=1")
    page.get_by_role("button", name="Start").wait_for()
    heard_all(page)
    assert phase(page) == "consent"
    assert asked == []


def test_who_has_agreed_is_not_asked_again(page: Page) -> None:
    agree(page)
    eventually(lambda: measured(page) > 0, "a measurement")
    page.reload()
    eventually(lambda: phase(page) in ("waiting", "measuring"), "the agent at work")


def test_every_request_is_shown_as_it_was_sent(page: Page) -> None:
    """The others fetch kernels and say nothing."""
    asked = requests_of(page)

    def told() -> list[Request]:
        return [request for request in asked if request.method != "GET"]

    agree(page)
    eventually(lambda: measured(page) > 3, "some measurements")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(1_000)
    entries = page.locator("#sent details")
    eventually(lambda: entries.count() == len(told()) > 2, "a line for each request")
    entries.evaluate_all("(all) => all.forEach((one) => { one.open = true })")
    eventually(lambda: page.locator("#sent pre").count() == len(told()), "what each held")
    shown = [json.loads(text) for text in page.locator("#sent pre").all_inner_texts()]
    assert shown == [request.post_data_json for request in reversed(told())]
    assert page.get_by_role("button", name="Copy").count() == len(shown)


def test_what_is_copied_is_the_text_that_was_sent(page: Page, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    asked = requests_of(page)
    agree(page)
    eventually(lambda: page.locator("#sent details").count() > 0, "a line for a request")
    first = page.locator("#sent details").last
    # By keyboard: new lines above move what a pointer aims at.
    first.locator("summary").press("Enter")
    first.get_by_role("button", name="Copy").press("Enter")
    first.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == asked[0].post_data


def spend(page: Page, ms: int) -> None:
    """Lets the day go as if so much of it had been spent."""
    page.evaluate(
        """(ms) => {
          const day = new Date().toLocaleDateString("sv-SE");
          localStorage.setItem("kernelzoo:spent", JSON.stringify({ day, ms }));
        }""",
        ms,
    )


def test_the_budget_stops_the_loop_and_a_larger_one_lets_it_go_on(page: Page) -> None:
    agree(page)
    eventually(lambda: measured(page) > 0, "a measurement")
    spend(page, 5 * 60_000 - 100)
    page.get_by_label("A day").select_option("5 minutes")
    eventually(lambda: page.evaluate("kernelzooAgent.state.pausedBy") == "budget", "the end")
    page.get_by_text("Done for today: the budget is spent").first.wait_for()
    count = measured(page)
    page.wait_for_timeout(1_000)
    assert measured(page) == count, "it went on without a budget"
    bar = page.get_by_role("progressbar", name="Measuring today")
    eventually(
        lambda: bar.evaluate("(bar) => bar.value / bar.max") == 1, "a bar that is full", within_s=5
    )
    page.get_by_label("A day").select_option("1 hour")
    eventually(lambda: phase(page) in ("waiting", "measuring"), "the agent at work again")
    eventually(lambda: measured(page) > count, "another measurement")


def test_a_spent_budget_is_spent_after_a_reload_too(page: Page) -> None:
    agree(page)
    eventually(lambda: measured(page) > 0, "a measurement")
    spend(page, 15 * 60_000)
    address = page.url
    page.goto(f"{address.partition('/agent')[0]}/healthz")
    heard_all(page)
    asked = requests_of(page)
    page.goto(address)
    eventually(lambda: page.evaluate("kernelzooAgent.state.pausedBy") == "budget", "the end")
    heard_all(page)
    assert asked == []


def test_stop_and_forget_clears_everything_and_ends_the_agent(stack: Stack, page: Page) -> None:
    agree(page)
    eventually(lambda: measured(page) > 0, "a measurement")
    assert "kernelzoo:identity" in notes(page)
    shown = page.locator("#identity")
    eventually(lambda: shown.inner_text() != "none yet", "the identity's number")
    identity = shown.inner_text()
    page.get_by_role("button", name="Stop and forget me").click()
    page.get_by_text("The gateway has erased").wait_for()
    named = "SELECT count(*) FROM measurement WHERE identity_id = '{}'"
    assert rows(stack, named.format(identity)) == [(0,)]
    eventually(lambda: _workers_of(page) == [], "the end of the agent's worker", within_s=10)
    asked = requests_of(page)
    heard_all(page)
    assert notes(page) == {}
    assert (phase(page), asked) == ("consent", [])
    identities = "SELECT count(DISTINCT identity_id) FROM agent_session"
    ((before,),) = rows(stack, identities)
    assert see_profile(page)["identity"] is None
    page.get_by_role("button", name="Send this and start").click()
    eventually(lambda: rows(stack, identities) == [(before + 1,)], "a new identity")


def test_forgetting_waits_for_a_gateway_that_is_away(page: Page) -> None:
    agree(page)
    eventually(lambda: measured(page) > 0, "a measurement")
    page.route("**/v1/identities/forget", lambda route: route.abort())
    page.get_by_role("button", name="Stop and forget me").click()
    page.get_by_text("is not erased yet").wait_for()
    assert set(notes(page)) == {"kernelzoo:identity"}
    page.unroute("**/v1/identities/forget")
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("The gateway has erased").wait_for()
    assert notes(page) == {}


def test_a_browser_without_simd_is_told_and_asked_for_nothing(
    stack: Stack, context: BrowserContext
) -> None:
    context.add_init_script(NO_SIMD)
    page = context.new_page()
    page.goto(f"{stack.url}/agent")
    page.get_by_text("has no 128-bit SIMD").wait_for()
    assert page.get_by_role("button", name="Start").is_disabled()


def _hidden(page: Page) -> None:
    page.evaluate("Object.defineProperty(document, 'hidden', { configurable: true, value: true })")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def _by_hand(page: Page) -> None:
    page.get_by_role("button", name="Pause").click()


@pytest.mark.parametrize(("pause", "why"), [(_hidden, "hidden"), (_by_hand, "hand")])
def test_measuring_stops_while_there_is_a_reason(
    page: Page, pause: Callable[[Page], None], why: str
) -> None:
    agree(page)
    eventually(lambda: measured(page) > 0, "a measurement")
    pause(page)
    eventually(lambda: page.evaluate("kernelzooAgent.state.pausedBy") == why, "the pause")
    page.wait_for_timeout(500)
    count = measured(page)
    page.wait_for_timeout(1_000)
    assert measured(page) == count


def test_a_screen_reader_is_told_of_changes_and_of_no_candidate(page: Page) -> None:
    page.evaluate(
        """globalThis.said = [];
        new MutationObserver(() => said.push(document.getElementById("announce").textContent))
          .observe(document.getElementById("announce"), { childList: true, characterData: true,
            subtree: true });"""
    )
    agree(page)
    eventually(lambda: measured(page) > 8, "some measurements")
    said = page.evaluate("said")
    assert 0 < len(said) <= 6, said
    assert not any("candidate" in text for text in said)


def test_no_width_makes_the_page_scroll_sideways(page: Page) -> None:
    agree(page)
    eventually(lambda: measured(page) > 0, "a measurement")
    for width in (320, 390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_an_agent_measures_in_the_name_that_the_address_says(stack: Stack, page: Page) -> None:
    page.goto(f"{stack.url}/agent?target=wasm&application=shop")
    assert see_profile(page)["application"] == "shop"
    page.get_by_role("button", name="Send this and start").click()
    page.get_by_text("there is no application shop to measure for").first.wait_for()


def test_a_target_that_is_none_is_refused_before_a_request(stack: Stack, page: Page) -> None:
    asked = requests_of(page)
    page.goto(f"{stack.url}/agent?target=wasm&target=gpu")
    page.get_by_role("button", name="Start").click()
    sentence = "The address asks for the target gpu; write ?target=wasm or ?target=webgpu."
    page.get_by_text(sentence).first.wait_for()
    heard_all(page)
    assert [request.url for request in asked] == []
