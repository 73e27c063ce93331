"""`make report-test`: pages of `ingot report` in headless Chromium, what is drawn and clicked at two widths.

Not among the tests that `make test` runs: it needs Chromium and its driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.test_cli import ingot

ROOT = Path(__file__).parent.parent.parent
MODEL = ROOT / "examples" / "digits" / "digits.onnx"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")

CONTRAST = """
function rgb(c) {
  const n = c.match(/[\\d.]+/g).map(Number);
  return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1];
}
function light(c) {
  const [r, g, b] = c.map((v) => v / 255).map((v) =>
    v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function below(e) {
  for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor);
    if (c[3] > 0) return c;
  }
  return [255, 255, 255, 1];
}
const bad = [];
for (const e of document.querySelectorAll("main *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || e.closest("svg, style, script") || !e.offsetParent) continue;
  const [a, b] = [rgb(getComputedStyle(e).color), below(e)].map((c) => light(c.slice(0, 3)));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) bad.push(e.tagName + "." + e.className + " " + ratio.toFixed(2));
}
return bad;
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert ingot("report", MODEL, "-o", path, "--error", "--against", "math=exact").exit_code == 0
    return path.as_uri()


@pytest.fixture(params=[1280, 390])
def browser(request: pytest.FixtureRequest, page: str) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    size = {"width": request.param, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page)
    yield driver
    assert driver.get_log("browser") == []
    driver.quit()


def shown(browser: Any) -> list[str]:
    return [
        a.get_attribute("id") for a in browser.find_elements(By.CSS_SELECTOR, "article") if a.is_displayed()
    ]


def test_nothing_overflows_and_everything_can_be_read(browser: Any) -> None:
    widths = "return [document.documentElement.scrollWidth, innerWidth]"
    wide, room = browser.execute_script(widths)
    assert wide <= room
    for scheme in ("light", "dark"):
        feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
        assert browser.execute_script(CONTRAST) == []


def test_a_box_and_a_row_show_their_layer(browser: Any) -> None:
    assert len(shown(browser)) == 1
    boxes = browser.find_elements(By.CSS_SELECTOR, ".view .box[data-layer]")
    press = "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    for box in boxes:
        browser.execute_script(press, box)
        assert shown(browser) == [f"layer-{box.get_attribute('data-layer')}"]
        assert "chosen" in box.get_attribute("class")
    browser.find_elements(By.CSS_SELECTOR, ".layers td button")[0].click()
    assert shown(browser) == ["layer-0"]


def test_keys_move_the_graph_and_choose_layers(browser: Any) -> None:
    view = browser.find_element(By.CSS_SELECTOR, ".view")
    picture = view.find_element(By.TAG_NAME, "svg")
    browser.find_elements(By.CSS_SELECTOR, ".layers td button")[0].click()
    view.send_keys("n")
    assert shown(browser) == ["layer-1"]
    view.send_keys("p")
    assert shown(browser) == ["layer-0"]
    for key in ("+", "-", "0", Keys.ARROW_DOWN, Keys.ARROW_RIGHT):
        before = picture.get_dom_attribute("viewBox")
        view.send_keys(key)
        assert picture.get_dom_attribute("viewBox") != before


def test_the_graph_is_saved_whole(browser: Any) -> None:
    browser.execute_script("URL.createObjectURL = (b) => { window.saved = b; return 'data:,'; }")
    browser.execute_script("HTMLElement.prototype.click = () => {}")
    press = "arguments[0].dispatchEvent(new MouseEvent('click'))"
    browser.execute_script(press, browser.find_element(By.ID, "zoom-in"))
    browser.execute_script(press, browser.find_element(By.ID, "save"))
    text = browser.execute_async_script("window.saved.text().then(arguments[0])")
    assert text.startswith("<svg") and 'viewBox="0 0 ' in text and "Softmax" in text


def test_what_is_packed_is_unpacked(browser: Any) -> None:
    article = next(a for a in browser.find_elements(By.CSS_SELECTOR, "article") if a.is_displayed())
    article.find_element(By.TAG_NAME, "summary").click()
    text = article.find_element(By.TAG_NAME, "pre")
    WebDriverWait(browser, 10).until(lambda _: len(text.text) > 100)
    kernels = browser.find_element(By.CSS_SELECTOR, '[data-picture="program"]')
    kernels.click()
    WebDriverWait(browser, 10).until(lambda _: kernels.get_attribute("aria-pressed") == "true")
    numbers = [
        b.get_attribute("data-layer")
        for b in browser.find_elements(By.CSS_SELECTOR, ".view .box[data-layer]")
    ]
    assert numbers == [str(n) for n in range(len(numbers))] and numbers


def test_words_find_layers(browser: Any) -> None:
    field = browser.find_element(By.ID, "find")
    field.send_keys("softmax", Keys.ENTER)
    rows = browser.find_elements(By.CSS_SELECTOR, ".layers tbody tr")
    (left,) = (r for r in rows if r.is_displayed())
    assert browser.find_element(By.ID, "found").text == f"1 of {len(rows)}"
    assert shown(browser) == [f"layer-{left.get_attribute('data-layer')}"]
    field.clear()
    field.send_keys("n")  # not a key of the graph while the field has the focus
    assert shown(browser) == [f"layer-{left.get_attribute('data-layer')}"]


def test_a_column_sorts(browser: Any) -> None:
    browser.find_elements(By.CSS_SELECTOR, ".layers th button")[3].click()
    cells = browser.find_elements(By.CSS_SELECTOR, ".layers tbody td:nth-child(4)")
    macs = [int(c.get_attribute("data-value")) for c in cells]
    assert macs == sorted(macs, reverse=True)
