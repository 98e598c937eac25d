"""Every page, as people with different screens, colours and needs have it."""

import os
import re
from pathlib import Path

import pytest

from tests.browser.conftest import Visit, Visited

axe_library = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed (pip install '.[browser]')"
)

PATHS = (
    "/",
    "/jobs",
    "/jobs?search=nothing-like-this",
    "/jobs/new",
    "/jobs/{translation}",
    "/jobs/{scores}",
    "/jobs/{ranking}",
    "/jobs/{hostile}",
    "/jobs/{waiting}",
    "/jobs/{translation}/documents",
    "/jobs/{translation}/documents/bulletin-0002",
    "/jobs/{scores}/documents",
    "/jobs/{scores}/documents/mixed-04",
    "/jobs/{ranking}/documents",
    "/jobs/{hostile}/documents",
    "/jobs/{hostile}/documents/?position=0",
    "/jobs/{waiting}/shards",
    "/jobs/{waiting}/actions",
    "/jobs/{waiting}/actions/cancel",
    "/compare",
    "/compare?a={translation}&b={hostile}",
    "/workers",
    "/workers?stopped=true",
    "/models",
    "/query",
    "/query?sql=select+job_id,+documents+from+v_jobs",
    "/schema",
    "/login",
)
SCREENSHOTS = os.environ.get("KVJOBS_TEST_SCREENSHOTS")  # a folder: each page is kept there as a picture


def settle(visited: Visited) -> None:
    """Wait until the charts are drawn."""
    for place in visited.page.locator("[data-chart]").all():
        if place.is_visible():
            place.locator("svg, canvas").first.wait_for(timeout=5000)


def keep_picture(visited: Visited, name: str) -> None:
    if SCREENSHOTS:
        file = Path(SCREENSHOTS) / f"{name.strip('/').replace('/', '-') or 'overview'}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        visited.page.screenshot(path=file, full_page=True)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("width", "scheme"), [(1600, "light"), (380, "dark")])
def test_a_page_fits_its_screen_reports_no_error_and_axe_finds_nothing(
    look: Visit, path: str, width: int, scheme: str
) -> None:
    visited = look(path, width=width, scheme=scheme)
    settle(visited)
    keep_picture(visited, f"{path.split('?')[0]}-{width}-{scheme}")

    assert visited.problems == []
    beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert visited.page.evaluate(beyond) <= 0, "the page is wider than the screen"
    found = axe_library.Axe().run(visited.page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_whole_without_scripts(look: Visit, path: str) -> None:
    with_scripts, without = look(path), look(path, script=False)

    def texts(visited: Visited, selector: str) -> list[str]:
        found = (" ".join(text.split()) for text in visited.page.locator(selector).all_text_contents())
        return [re.sub(r"[\d.]+ s\b", "some s", text) for text in found]  # how long a query took

    for selector in ("h1", "h2", "h3", "thead th", "figcaption p"):
        assert texts(without, selector) == texts(with_scripts, selector), selector


@pytest.mark.parametrize(("width", "scheme"), [(1600, "light"), (380, "dark")])
def test_the_steps_with_and_without_the_cache_are_drawn(look: Visit, width: int, scheme: str) -> None:
    visited = look("/models", width=width, scheme=scheme)
    settle(visited)

    (drawn,) = visited.page.locator("#caches [data-chart] svg").all()
    texts = drawn.locator("text").all_text_contents()

    assert {"with the cache", "without", "ms", "number of the step", "1", "24"} <= set(texts)
    assert visited.page.locator("#caches table").first.locator("thead th").all_text_contents() == [
        "Tokens out",
        "4",
        "24",
    ]
    box = drawn.bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= box["x"] + box["width"] <= width


def test_the_keyboard_reaches_the_content_first(visit: Visit) -> None:
    page = visit("/jobs").page

    page.keyboard.press("Tab")
    assert page.locator(":focus").text_content() == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
