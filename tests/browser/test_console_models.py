"""The console over a gateway with a model that a crowd has tuned."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.browsers import PHONE, watched, widest
from tests.browser.sites import site
from tests.e2e.scripted_agent import ScriptedAgent
from tests.running import eventually
from tests.tiny_model import TINY_NAME, add, tiny_model, with_wrong_golden


@pytest.fixture(scope="module")
def device_class(stack: Stack) -> str:
    """The class on which both kernels of the model are confirmed."""
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        add(gateway)
    agent = ScriptedAgent(url=stack.url, operator_key=stack.keys.operator)
    agent.open()
    found: list[dict[str, Any]] = []

    def confirmed() -> bool:
        found[:] = agent.confirmed_keys()
        return len(found) == 2

    eventually(confirmed, "two confirmed entries")
    return str(found[0]["device_class"])


def test_the_coverage_of_a_model_leads_to_every_kernel_of_its_timeline(
    stack: Stack, device_class: str, context: BrowserContext
) -> None:
    with watched(context, stack.url) as page:
        page.goto(f"{stack.url}/console#/coverage")
        page.get_by_text(f"{TINY_NAME}, 1 plan").click()
        page.set_viewport_size({"width": 1000, "height": 900})
        # What is drawn anew for another width is still open.
        row = page.get_by_role("row").filter(has_text=device_class).filter(has_text="sequence=4")
        expect(row).to_contain_text("2 of 2")
        expect(row).to_contain_text("100 %")
        row.get_by_role("link", name="every kernel").click()
        timeline = (
            f"#/tuning/model/{TINY_NAME}/{quote(device_class, safe='')}?sequence=4&precision=f32"
        )
        page.wait_for_url(f"**/console{timeline}")
        expect(page.locator("dl")).to_contain_text("2.00×")
        expect(page.locator(".step")).to_be_attached()
        expect(page.locator(".step ~ .served-mark")).to_have_count(2)
        kernels = page.get_by_role("table", name="Every kernel that changed it")
        for key in tiny_model().plan.kernels:
            expect(kernels.get_by_role("row").filter(has_text=key)).to_contain_text("yes")


WRONG = """async ([url, name]) => {
  const { KernelZoo } = await import(`${url}/client/sdk.js`);
  const zoo = await KernelZoo.open(url, { backend: "wasm" });
  const model = await zoo.model(name);
  return model.complete().then(() => "right", (error) => `${error.stage}: ${error.message}`);
}"""


def test_the_operator_sees_on_which_class_a_page_found_a_model_wrong(
    stack: Stack, device_class: str, browser: Browser, context: BrowserContext
) -> None:
    """Its kernels are right, and its golden output is not."""
    assert device_class, "its kernels are compiled"
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        add(gateway, with_wrong_golden(tiny_model(name="skewed")))
        with browser.new_context() as elsewhere, site({}) as address:
            visitor = elsewhere.new_page()
            visitor.goto(address)
            for _ in range(2):
                found = visitor.evaluate(WRONG, [stack.url, "skewed"])
                assert found.startswith("compare: skewed does not compute its golden y in this")
        eventually(lambda: gateway.model_coverage("skewed").wrong != [], "the zoo to hear of it")
        (wrong,) = gateway.model_coverage("skewed").wrong
    assert (wrong.outputs, wrong.networks, wrong.dimensions) == (["y"], 1, {"sequence": 4})
    with watched(context, stack.url) as page:
        page.goto(f"{stack.url}/console#/coverage")
        page.get_by_text("skewed, 1 plan").click()
        table = page.get_by_role("table", name="Classes on which skewed is wrong")
        row = table.get_by_role("row").filter(has_text=wrong.device_class)
        expect(row).to_contain_text("sequence=4")
        expect(row).to_contain_text("just now")


def test_the_timeline_of_a_class_that_measured_nothing_says_so(
    stack: Stack, device_class: str, context: BrowserContext
) -> None:
    other = f"0123456789abcdef:{device_class.partition(':')[2]}"
    with watched(context, stack.url) as page:
        page.goto(f"{stack.url}/console#/tuning/model/{TINY_NAME}/{quote(other, safe='')}")
        page.get_by_text("No kernel has won anything on this class yet.").wait_for()
        page.get_by_role("link", name="All models").click()
        page.get_by_text(f"{TINY_NAME}, 1 plan").wait_for()


LONG_NAME = "paraphrase-multilingual-minilm-l12-v2-of-fifty-languages"
LONG_KEY = "conv2d+bias+relu:f32:b1h56w56c256o512kh3kw3stride1pad1:constant=b"


def test_no_view_is_wider_than_a_phone_whatever_is_open_and_however_long_its_names(
    stack: Stack, device_class: str, browser: Browser
) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        add(gateway, tiny_model(name=LONG_NAME))
        gateway.register(Workload.parse(LONG_KEY), TargetKind.WASM)
    timeline = f"#/tuning/model/{LONG_NAME}/{quote(device_class, safe='')}?sequence=4&precision=f32"
    shown = {
        "#/overview": f"text={LONG_KEY}",
        "#/zoo": f"td >> text={next(iter(tiny_model().plan.kernels))}",
        "#/coverage": f"text={LONG_NAME}, 1 plan",
        "#/tuning": f"td >> text={LONG_KEY}",
        timeline: ".step",
    }
    with browser.new_context(viewport=PHONE) as context, watched(context, stack.url) as page:
        for address, filled in shown.items():
            page.goto(f"{stack.url}/console{address}")
            page.locator(filled).first.wait_for(state="attached")
            page.evaluate(
                "for (const each of document.querySelectorAll('details')) each.open = true"
            )
            page.evaluate("new Promise(requestAnimationFrame)")
            assert widest(page) == (PHONE["width"], []), address


GUIDE = Path(__file__).parents[2] / "client" / "dist" / "guide"


@pytest.mark.parametrize("width", [PHONE["width"], 1280])
def test_no_page_of_the_guide_is_wider_than_its_window(
    stack: Stack, browser: Browser, width: int
) -> None:
    """Its code and tables are scrolled in boxes of their own."""
    with browser.new_context(viewport={"width": width, "height": 844}) as context:
        page = context.new_page()
        for file in sorted((*GUIDE.glob("*.html"), *GUIDE.glob("api/*.html"))):
            page.goto(f"{stack.url}/client/guide/{file.relative_to(GUIDE)}")
            assert widest(page) == (width, []), file.name
