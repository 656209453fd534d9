"""Pages as tests want them."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import BrowserContext, Page


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
