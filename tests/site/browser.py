"""`make docs-test`: every page of build/site in headless Chromium, at two widths, light and dark.

Not among the tests that `make test` runs: it needs Chromium, its driver, and the site.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.report.browser import CONTRAST, FLAGS

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.rglob("*.html") if p.name != "404.html")
WIDE = """
const out = [];
for (const e of document.querySelectorAll("main *")) {
  const scrolls = e.closest(".md-typeset__scrollwrap, pre, svg");
  if (scrolls || e.getBoundingClientRect().right <= innerWidth + 1) continue;
  out.push(e.tagName + " " + e.textContent.slice(0, 40));
}
return [document.documentElement.scrollWidth - innerWidth, out.slice(0, 3)];
"""

SCHEME = """
const still = document.createElement("style");
still.textContent = "* { transition: none !important }";
document.head.append(still);
document.body.dataset.mdColorScheme = arguments[0];
"""


@pytest.fixture(scope="module", params=[1280, 390])
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    size = {"width": request.param, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield driver
    driver.quit()


def test_there_are_pages() -> None:
    assert "index.html" in PAGES and len(PAGES) > 30


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_can_be_read_and_runs_no_script_that_fails(browser: Any, page: str) -> None:
    browser.get((SITE / page).as_uri())
    assert browser.get_log("browser") == []
    over, which = browser.execute_script(WIDE)
    assert over <= 0 and which == []
    for scheme in ("default", "slate"):
        browser.execute_script(SCHEME, scheme)
        assert browser.execute_script(CONTRAST) == [], scheme


def test_everything_comes_from_the_site(browser: Any) -> None:
    browser.get((SITE / "index.html").as_uri())
    named = "[...document.querySelectorAll('script, link, img, iframe')].map((e) => e.src || e.href)"
    loaded = [name for name in browser.execute_script(f"return {named}") if name]
    assert len(loaded) > 3 and all(name.startswith("file:") for name in loaded)


def test_search_finds_a_page_without_a_server(browser: Any) -> None:
    browser.get((SITE / "index.html").as_uri() + "?q=Winograd")
    found = WebDriverWait(browser, 20).until(
        lambda b: b.find_elements(By.CSS_SELECTOR, ".md-search-result__item a[href*='.html']")
    )
    assert found
