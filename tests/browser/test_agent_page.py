"""The agent page in real Chromium, against the real stack."""

from functools import partial
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.running import eventually, rows

# One of each family of operators, with extents that no vector covers among them.
WORKLOADS = (
    "matmul:f32:m64k48n96",
    "batch_matmul:f32:b3m16k17n24",
    "matmul:f32:m5k7n3",
    "matmul+bias+gelu:f32:m24k40n36",
    "conv2d:f32:b1h9w9c4o8kh3kw3stride1pad1",
    "softmax:f32:m7n33",
    "layer_norm:f32:m8n48",
    "matmul_nt+bias:f32:m1k48n200:constant=b",
    "matmul_i8+scales+bias:f32:m3k33n70",
    "gather:f32:m31k50n37",
)
PATIENCE_S = 100

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module", autouse=True)
def jobs(stack: Stack) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for key in WORKLOADS:
            gateway.register(Workload.parse(key), TargetKind.WASM)


def watched(context: BrowserContext, url: str) -> tuple[Page, list[str], list[str]]:
    """A page, what it complains of, and where it asks."""
    page = context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    return page, complaints, asked


def final_ballots(page: Page) -> list[dict[str, Any]]:
    events = page.evaluate("kernelzooAgent.events")
    return [event for event in events if event["type"] == "ballot" and event["final"]]


def test_the_page_is_isolated_waits_for_consent_and_asks_nobody_else(
    stack: Stack, context: BrowserContext
) -> None:
    page, complaints, asked = watched(context, f"{stack.url}/agent")
    assert page.evaluate("crossOriginIsolated") is True
    assert page.evaluate("typeof SharedArrayBuffer") == "function"
    page.get_by_role("button", name="Start").wait_for()
    with page.expect_response("**/healthz"):
        page.evaluate("fetch('/healthz')")  # What the page asked before is told to the test before.
    assert page.evaluate("kernelzooAgent.state.phase") == "consent"
    assert complaints == []
    assert {url.split("/", 3)[2] for url in asked} == {stack.url.removeprefix("http://")}
    assert not any("/v1/" in url for url in asked), "it spoke before it was allowed to"


def test_a_visitor_who_consents_measures_every_candidate_rightly_and_votes(
    stack: Stack, context: BrowserContext
) -> None:
    page, complaints, _ = watched(context, f"{stack.url}/agent")
    page.get_by_label("Intensity").select_option("full")
    page.get_by_role("button", name="Start").click()
    page.get_by_role("button", name="Send this and start").click()
    eventually(lambda: len(final_ballots(page)) == len(WORKLOADS), "ballots", PATIENCE_S)
    session = page.evaluate("kernelzooAgent.state.session")
    assert session["isolated"] is True
    assert session["clockStepMs"] < 0.05, "an isolated page has the 5 µs clock"
    assert session["peakGflops"] > 1
    assert page.evaluate("kernelzooAgent.state.firstTimedMs") > 0
    assert complaints == []
    eventually(
        lambda: (
            rows(stack, "SELECT DISTINCT outcome, verdict FROM measurement") == [("ok", "verified")]
        ),
        "a verified measurement of each candidate and no other",
    )
    confirmed = "SELECT workload_key FROM zoo_entry WHERE state = 'confirmed' ORDER BY 1"
    keys = [(key,) for key in sorted(WORKLOADS)]
    eventually(lambda: rows(stack, confirmed) == keys, "an entry for each job")


VOTES_WANTED = """
SELECT count(*) FROM tuning_job j,
  (SELECT identity_id FROM agent_session ORDER BY id DESC LIMIT 1) latest
WHERE NOT EXISTS (SELECT FROM ballot b
                  WHERE b.workload_key = j.workload_key AND b.identity_id = latest.identity_id)
"""
"""Jobs that the latest visitor has not voted on."""


def phase(page: Page) -> str:
    return str(page.evaluate("kernelzooAgent.state.phase"))


def measured(page: Page) -> int:
    events = page.evaluate("kernelzooAgent.events")
    return sum(event["type"] == "measured" for event in events)


def test_a_page_closed_in_mid_lease_is_continued_by_the_next_one(
    stack: Stack, context: BrowserContext
) -> None:
    """The visitor before has measured the whole space: what is left to this one are the leaders."""
    accepted = "SELECT count(*) FROM measurement"
    ((before,),) = rows(stack, accepted)
    first = context.new_page()
    first.goto(f"{stack.url}/agent?start=1")
    eventually(lambda: rows(stack, accepted)[0][0] > before, "a first report")
    first.close()
    second = context.new_page()
    second.goto(f"{stack.url}/agent?start=1")
    eventually(
        lambda: rows(stack, VOTES_WANTED) == [(0,)] and phase(second) == "waiting",
        "a vote on each job, and nothing more to do",
        PATIENCE_S,
    )
    own = (
        "SELECT count(*), count(DISTINCT candidate_id) FROM measurement WHERE identity_id = "
        "(SELECT identity_id FROM agent_session ORDER BY id DESC LIMIT 1)"
    )
    ((reports, kernels),) = rows(stack, own)
    assert reports == kernels, "it measured again what it had reported from the page before"
    assert 0 < measured(second) < kernels, "it began anew, or found nothing to do"


def has_session(page: Page) -> bool:
    return page.evaluate("kernelzooAgent.state.session") is not None


def test_the_identity_outlives_the_page(stack: Stack, context: BrowserContext) -> None:
    identities = "SELECT count(DISTINCT identity_id), count(*) FROM agent_session"
    ((before, sessions),) = rows(stack, identities)
    for opened in (1, 2):
        page = context.new_page()
        page.goto(f"{stack.url}/agent?start=1")
        eventually(partial(has_session, page), "a session")
        page.close()
        assert rows(stack, identities) == [(before + 1, sessions + opened)]


def test_an_agent_whose_identity_is_refused_comes_back_as_a_new_one(
    stack: Stack, context: BrowserContext
) -> None:
    """Every agent is in this state after the gateway's secret was changed."""
    identities = "SELECT count(DISTINCT identity_id) FROM agent_session"
    for _ in range(2):
        ((before,),) = rows(stack, identities)
        page = context.new_page()
        page.goto(f"{stack.url}/agent?start=1")
        eventually(partial(has_session, page), "a session")
        forged = "key => localStorage.setItem(key, localStorage.getItem(key).slice(0, -4) + 'AAAA')"
        key = page.evaluate("Object.keys(localStorage).find((key) => key.endsWith('identity'))")
        page.evaluate(forged, key)
        page.close()
        assert rows(stack, identities) == [(before + 1,)]
