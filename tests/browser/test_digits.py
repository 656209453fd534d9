"""The example that reads digits: a bundle made by the commands, drawn in, and used offline."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from shutil import copytree

import pytest
from playwright.sync_api import Browser, Page, ViewportSize
from typer.testing import CliRunner

from cli.app import app
from cli.demo.examples import EXAMPLES, served_examples
from cli.stack.supervisor import Stack
from tests.running import eventually

TRAINED = Path(__file__).parents[2] / ".kernelzoo" / "networks" / "digits.onnx"
"""`make setup` trains this."""

READY = "globalThis.kernelzooReady || !document.querySelector('#error').hidden"
PHONE = ViewportSize(width=390, height=844)

# Drawn for this test, not those that the network has seen: places in hundredths of the paper.
DRAWN: tuple[tuple[int, str], ...] = (
    (0, "52,18 40,22 33,35 30,52 33,70 44,82 55,80 66,70 70,50 66,30 56,18"),
    (1, "50,16 50,84"),
    (1, "40,30 52,18 52,50 51,84"),
    (2, "32,32 42,20 58,20 66,32 60,48 45,66 32,80 70,80"),
    (3, "34,24 48,17 63,24 63,38 48,47 62,52 67,68 56,81 40,80 32,73"),
    (4, "57,16 44,38 30,60 74,60/60,42 59,86"),
    (4, "34,20 32,50 64,50/64,22 63,82"),
    (5, "66,20 40,20 37,46 52,42 66,52 67,68 54,80 36,78"),
    (6, "60,16 46,30 36,50 35,68 46,82 60,80 67,68 60,56 46,58 37,68"),
    (7, "32,20 70,20 56,46 46,84"),
    (7, "30,22 68,22 50,52 42,84/38,54 64,52"),
    (8, "62,26 50,17 38,26 42,40 56,52 66,66 58,80 44,80 34,68 44,52 58,40 62,26"),
    (9, "64,30 52,18 38,26 40,42 54,46 64,32 63,55 58,84"),
)
Place = tuple[float, float]

SEVEN = "32,20 70,20 56,46 46,84"


def strokes_of(text: str, size: float = 1, at: Place = (0, 0)) -> list[list[Place]]:
    """Places from 0 to 1, of a drawing made smaller by `size` and moved to `at`."""
    return [
        [
            (at[0] + size * float(x) / 100, at[1] + size * float(y) / 100)
            for x, y in (place.split(",") for place in stroke.split())
        ]
        for stroke in text.split("/")
    ]


@pytest.fixture(scope="module")
def folder(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static host's files: the examples, with the bundle and the SDK that the commands write."""
    site = tmp_path_factory.mktemp("site") / "examples"
    copytree(EXAMPLES, site)

    def kernelzoo(*words: str | Path) -> bool:
        asked = [*map(str, words), "--state", str(stack.place.root)]
        return CliRunner().invoke(app, asked).exit_code == 0

    assert kernelzoo("models", "add", TRAINED, "--name", "digits")
    assert kernelzoo("zoo", "sdk", "-o", site / "digits" / "sdk")
    bundle = ("zoo", "bundle", "digits", "--javascript", "-o", site / "digits" / "zoo")
    eventually(lambda: kernelzoo(*bundle), "a kernel for each call")
    return site


@pytest.fixture(scope="module")
def drawn(folder: Path, browser: Browser) -> Iterator[Page]:
    with served_examples(folder) as address:
        page = browser.new_page()
        opened(page, f"{address}/digits/")
        yield page
        page.close()


def opened(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_function(READY)
    assert page.inner_text("#error") == ""


def draw(page: Page, strokes: Sequence[Sequence[Place]]) -> None:
    box = page.locator("#paper").bounding_box()
    assert box is not None
    for stroke in strokes:
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place)
        page.mouse.up()


def read_of(page: Page, strokes: Sequence[Sequence[Place]]) -> int:
    """Draws on empty paper, and returns what is read when nothing more changes."""
    page.click("#clear")
    page.wait_for_function("globalThis.kernelzooDigit === null")
    draw(page, strokes)
    page.wait_for_function("typeof globalThis.kernelzooDigit === 'number'")
    page.wait_for_timeout(30)
    read = page.evaluate("globalThis.kernelzooDigit")
    assert page.inner_text("#digit") == str(read)
    return int(read)


def test_every_digit_is_read_whatever_its_size_and_place(drawn: Page) -> None:
    found = [(digit, read_of(drawn, strokes_of(text))) for digit, text in DRAWN]
    small = [
        (digit, read_of(drawn, strokes_of(text, 0.5, (0.45, 0.1)))) for digit, text in DRAWN[1::3]
    ]
    assert [each for each in (*found, *small) if each[0] != each[1]] == []


def test_a_bundle_has_the_network_for_pages_without_webassembly(drawn: Page) -> None:
    found = drawn.evaluate(
        """async () => {
          const { KernelZoo } = await import("./sdk/sdk.js");
          const image = Float32Array.from({ length: 64 }, (_, i) => Number(i % 8 === 4));
          const read = async (options) => {
            const zoo = await KernelZoo.open("zoo/bundle.json", options);
            const model = await zoo.model("digits");
            const { probabilities } = await model.run({ image });
            const { target } = model.plan;
            await model.dispose();
            return { target, probabilities: [...probabilities] };
          };
          return [await read({}), await read({ backend: "javascript" })];
        }"""
    )
    usual, plain = found
    assert (usual["target"], plain["target"]) == ("wasm", "javascript")
    assert plain["probabilities"] == pytest.approx(usual["probabilities"], abs=1e-5)


def test_the_keys_draw_and_wipe(drawn: Page) -> None:
    drawn.click("#clear")
    drawn.focus("#paper")
    for key in (" ", *["ArrowDown"] * 12, " "):
        drawn.keyboard.press(key)
    drawn.wait_for_function("globalThis.kernelzooDigit === 1")
    drawn.keyboard.press("Escape")
    drawn.wait_for_function("globalThis.kernelzooDigit === null")
    assert drawn.inner_text("#digit") == "?"


def test_a_finger_draws_on_a_phone_in_the_dark(folder: Path, browser: Browser) -> None:
    with served_examples(folder) as address:
        context = browser.new_context(viewport=PHONE, has_touch=True, color_scheme="dark")
        page = context.new_page()
        opened(page, f"{address}/digits/")
        finger = context.new_cdp_session(page)
        box = page.locator("#paper").bounding_box()
        assert box is not None
        ((start, *rest),) = strokes_of(SEVEN)

        def touch(kind: str, *places: Place) -> None:
            points = [
                {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}
                for x, y in places
            ]
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", start)
        for place in rest:
            touch("touchMove", place)
        touch("touchEnd")
        page.wait_for_function("globalThis.kernelzooDigit === 7")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("scrollY") == 0
        context.close()


def test_what_was_visited_once_works_without_a_network(folder: Path, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    with ExitStack() as network:
        address = network.enter_context(served_examples(folder))
        opened(page, f"{address}/digits/")
        page.wait_for_function("globalThis.kernelzooComplete === true")
    opened(page, f"{address}/digits/")
    assert read_of(page, strokes_of(SEVEN)) == 7
    kept = page.evaluate(
        "caches.open('digits-page').then((kept) => kept.keys())"
        ".then((all) => all.map(({ url }) => url))"
    )
    assert any("sdk.js" in url for url in kept)
    assert not any("/zoo/" in url for url in kept), "the network is of the graph"
    context.close()
