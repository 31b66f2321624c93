"""Pages in a real Chromium: drawn, without an error, by keyboard, narrow, dark, with 10,000 topics.

Wants a Chromium of the system and `requirements/browser.lock`: `make browser` brings both.
PAGE_PICTURES names a folder for screenshots.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reput
from tests.jobs.page import stores

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright here: make browser")
_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: make browser")
# A browser asks the network for this and that as it starts, which a closed one answers late.
_QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
_NOW = 1_800_000_000_000

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with (sync_api.sync_playwright() as playwright,
          playwright.chromium.launch(executable_path=CHROMIUM, args=_QUIET) as opened):  # fmt: skip
        yield opened


@pytest.fixture
def shown(browser: Any, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a page and waits until it is drawn; no error may have been shown by then or later."""
    errors: list[str] = []
    contexts = []

    def show(path: Path, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: errors.append(said.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: (errors.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(("file:", "data:")) else errors.append(
                asked.url
            ),
        )  # fmt: skip
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn=yes]", timeout=60_000)
        folder = os.environ.get("PAGE_PICTURES")
        if folder:
            name = f"{request.node.name}-{len(contexts)}.png".replace("/", "-")
            page.screenshot(path=f"{folder}/{name}", full_page=True)
        return page

    yield show
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about a healthy store that was checked."""
    from tests.in_process import Session

    folder = tmp_path_factory.mktemp("healthy")
    reput.report(Session(), str(stores.healthy(folder)), str(folder / "report.html"),
                 rocketmq="5.3.3", now=_NOW)  # fmt: skip
    return folder / "report.html"


def marks(page: Any) -> list[int]:
    """How many marks with a colour each picture has."""
    found: list[int] = page.eval_on_selector_all(
        ".picture",
        "all => all.map(each => each.querySelectorAll('.mark-rect path, .mark-rule line').length)",
    )
    return found


def test_every_picture_is_drawn(shown: Open, healthy: Path) -> None:
    page = shown(healthy)
    assert len(marks(page)) >= 9
    assert min(marks(page)) > 0
    assert page.locator(".verdict.sound").count() == 1
    assert page.locator(".alarm, .verdict.bad").count() == 0
    assert page.locator("nav a").count() == page.locator("main > section").count() == 10
    assert page.locator(".figure").count() == 7
    assert not page.locator("nav summary").is_visible()  # beside the page, nothing is folded
    # of a long name the middle is left out, not the queue's id
    ends = page.locator("#queues .picture text", has_text="…").all_text_contents()
    assert ends
    assert all(re.search(r" / \d+$", each) for each in ends)


@pytest.mark.long
def test_a_screen_reader_finds_pictures_by_name_and_tables_below(shown, healthy) -> None:
    page = shown(healthy)
    pictures = page.locator(".picture")
    names = [pictures.nth(n).get_attribute("aria-label") for n in range(pictures.count())]
    assert all(names)
    assert page.get_by_role("img").count() == len(names)
    page.locator("summary").evaluate_all("all => all.forEach(each => each.click())")
    page.wait_for_selector("#topics table tbody tr")
    tables = page.get_by_role("table")
    assert tables.count() == page.locator("main details").count() >= 9
    assert all(tables.nth(n).locator("caption").inner_text() for n in range(tables.count()))
    assert page.locator("th:not([scope=col])").count() == 0
    assert page.get_by_role("heading", level=1).count() == 1


@pytest.mark.long
def test_it_is_used_by_keyboard_alone(shown: Open, healthy: Path) -> None:
    page = shown(healthy)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    page.wait_for_selector("#time table tbody tr")
    for _ in range(9):  # past the table's own scrolling, to the button of its third column
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "messages":
            break
    page.keyboard.press("Enter")
    head = page.locator("#time th", has_text="messages")
    assert head.get_attribute("aria-sort") == "descending"
    cells = [int(t) for t in page.locator("#time tbody td:nth-child(3)").all_inner_texts()]
    assert cells == sorted(cells, reverse=True)
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(shown: Open, healthy: Path, scheme: str) -> None:
    page = shown(healthy, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    assert not page.locator("nav a").first.is_visible()
    page.locator("nav summary").click()
    page.locator("nav a", has_text="Topics").click()
    assert page.evaluate("location.hash") == "#topics"
    assert not page.locator("nav a").first.is_visible()  # folded again
    page.locator("#topics summary").click()
    page.wait_for_selector("#topics table tbody tr")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 28)")
    bar = page.locator("#topics .mark-rect path").first
    fill = bar.evaluate("each => getComputedStyle(each).fill")
    assert fill == ("rgb(31, 95, 168)" if scheme == "light" else "rgb(108, 178, 255)")
    widths = page.eval_on_selector_all(
        ".picture svg", "all => all.map(each => each.getBoundingClientRect().right)"
    )
    assert max(widths) <= 390


def test_hostile_names_are_shown_and_do_nothing(shown: Open, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    reput.report(str(stores.hostile(tmp_path)), str(path), now=_NOW)
    page = shown(path)
    page.locator("summary").evaluate_all("all => all.forEach(each => each.click())")
    page.wait_for_selector("#topics table tbody tr")
    assert page.title().startswith("RocketMQ store ")
    assert (
        page.locator("img, iframe, object, embed, script[src], link[rel=stylesheet]").count() == 0
    )
    assert page.locator("script").count() == 5
    names = page.locator("#topics tbody td:first-child").all_inner_texts()
    assert "</script><script>document.title='broken'</script>" in names
    assert "__proto__" in names
    drawn = page.locator("#topics .picture text").all_text_contents()
    assert any("<script>" in text for text in drawn)
    assert min(marks(page)) > 0


@pytest.mark.long
def test_ten_thousand_topics_do_not_freeze_it(shown: Open, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    reput.report(str(stores.many_topics(tmp_path)), str(path), now=_NOW)
    began = time.monotonic()
    page = shown(path)
    assert time.monotonic() - began < 30
    assert page.evaluate("document.querySelectorAll('*').length") < 20_000
    page.locator("#topics summary").click()
    page.wait_for_selector("#topics table tbody tr")
    assert page.locator("#topics tbody tr").count() == 50
    began = time.monotonic()
    page.locator("#topics input").fill("topic-09999")
    rows = page.locator("#topics tbody tr")
    sync_api.expect(rows).to_have_count(1)
    page.locator("#topics input").fill("")
    sync_api.expect(rows).to_have_count(50)
    page.locator("#topics button", has_text="Next").click()
    assert page.locator("#topics [role=status]").inner_text() == "Rows 51 to 100 of 10,000"
    assert time.monotonic() - began < 10


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about a store with a damaged record and no index."""
    from tests.in_process import Session

    folder = tmp_path_factory.mktemp("broken")
    store = stores.healthy(folder)
    shutil.rmtree(store / "index")
    segment = min((store / "commitlog").iterdir())
    content = bytearray(segment.read_bytes())
    content[91] ^= 1  # in the first message's body
    segment.write_bytes(content)
    reput.report(
        Session(), str(store), str(folder / "report.html"), rocketmq="5.3.3", now=_NOW
    )  # fmt: skip
    return folder / "report.html"


# What reaches past the window's edge and does not scroll by itself, or is cut in its box.
_CUT = """all => all.filter(each => !each.closest('.scroll, .skip, svg') && each.checkVisibility()
  && (each.getBoundingClientRect().right > innerWidth + 1
      || !each.matches('.scroll, .picture') && each.scrollWidth > each.clientWidth + 1
         && getComputedStyle(each).display !== 'inline'))
  .map(each => each.outerHTML.slice(0, 200))"""


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("which", ["healthy", "broken"])
def test_nothing_overflows_or_is_cut(shown, request, which: str, width: int) -> None:
    page = shown(request.getfixturevalue(which), viewport={"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.eval_on_selector_all("body *", _CUT) == []
    ends = "all => all.map(each => each.getBoundingClientRect().right - innerWidth)"
    assert max(page.eval_on_selector_all(".picture svg, .picture text", ends)) <= 0
    shown_tables = page.locator("section table")
    if which == "broken":  # what is damaged is there without a click
        page.wait_for_selector("#damage table tbody tr")
        assert shown_tables.count() >= 2
        figure = page.locator(".figure", has_text="Derived files").inner_text()
        assert re.search(r"\d+ of \d+", figure)
        alarm = page.locator("#derived .alarm").first.inner_text()
        assert re.findall(r"\d+", figure) == re.findall(r"\d+", alarm)
        damage = page.locator(".figure", has_text="Damage").inner_text()
        assert "196 bytes" in damage
        assert "196 bytes" in page.locator("#damage .alarm").first.inner_text()
    else:
        assert shown_tables.count() == 0


@pytest.mark.long
def test_the_next_command_is_whole_and_can_be_copied(shown: Open, tmp_path: Path) -> None:
    store = stores.healthy(tmp_path)
    shutil.rmtree(store / "index")
    from tests.in_process import Session

    reput.report(Session(), str(store), str(tmp_path / "page.html"), rocketmq="5.3.3", now=_NOW)
    page = shown(tmp_path / "page.html", viewport={"width": 390, "height": 844})
    command = page.locator(".command")
    assert command.evaluate("each => each.scrollWidth <= each.clientWidth")
    page.locator("button.copied").click()
    assert page.evaluate("getSelection().toString()") == command.text_content()
    assert command.text_content().startswith("reput rebuild ")
    page.wait_for_function("document.querySelector('.copied').textContent != 'Copy'")
