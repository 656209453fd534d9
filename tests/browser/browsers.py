"""Pages as tests want them."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import BrowserContext, Page, ViewportSize


@contextmanager
def watched(context: BrowserContext, url: str) -> Iterator[Page]:
    """A page that may neither complain nor ask another origin."""
    page = context.new_page()
    complaints: list[str] = []
    asked: set[str] = set()
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.add(request.url))
    yield page
    assert complaints == []
    assert {each for each in asked if not each.startswith((f"{url}/", "data:"))} == set()


PHONE: ViewportSize = {"width": 390, "height": 844}


def widest(page: Page) -> tuple[int, list[str]]:
    """The width that the page has, and the elements that reach beyond its window.

    What lies in a box that is scrolled does not widen the page.
    """
    width, beyond = page.evaluate(BEYOND)
    return width, beyond


BEYOND = """() => {
  const isScrolled = (each) => each.closest("pre, table, .scroll") !== null;
  const beyond = [...document.body.querySelectorAll("*")].filter(
    (each) => each.getBoundingClientRect().right > innerWidth + 1 && !isScrolled(each),
  );
  const named = beyond.map((each) => `${each.tagName} ${each.textContent.slice(0, 40)}`);
  return [document.documentElement.scrollWidth, named];
}"""
