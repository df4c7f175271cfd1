"""Every page, light and dark, on a wide and on a narrow screen: axe-core finds nothing, and no content is cropped."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.console.browser.conftest import has_sideways_scroll
from tests.console.browser.fleet_pages import PAGES, settle

SIZES = ({"width": 1440, "height": 900}, {"width": 390, "height": 844})


# The words of tables and states whose first and last letter are on different lines. Digests have no other place to break.
_SPLIT_LETTERS = """() => [...document.querySelectorAll("main :is(td, th, .state, strong)")].flatMap((element) => {
  if (!element.checkVisibility() || element.closest("pre, .diff")) return [];
  return [...element.childNodes].flatMap((node) => [node, ...node.childNodes]).filter((node) => node.nodeType === 3 && !node.parentElement.closest("code"))
    .flatMap((text) => [...text.data.matchAll(/[A-Za-z0-9]{2,}/g)].filter(({ index, 0: word }) => {
      const top = (at) => {
        const range = document.createRange();
        range.setStart(text, at);
        range.setEnd(text, at + 1);
        return range.getBoundingClientRect().top;
      };
      return top(index) !== top(index + word.length - 1);
    }).map((one) => one[0]));
})"""

# The cells of lists that begin or end beside the screen.
_CROPPED_CELLS = """() => [...document.querySelectorAll("td[data-label]")].filter((cell) => {
  const { left, right } = cell.getBoundingClientRect();
  return left < 0 || right > innerWidth || cell.scrollWidth > cell.clientWidth + 1;
}).map((cell) => cell.dataset.label)"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_fault_of_accessibility(
    fleet_console: str, open_page: Callable[..., Any], find_faults: Callable[..., Any], name: str
) -> None:
    page = open_page(fleet_console + PAGES[name])
    settle(page)
    for size, scheme in itertools.product(SIZES, ("light", "dark")):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        assert find_faults(page) == [], (size, scheme)
        assert not has_sideways_scroll(page), (size, scheme)
    for size in SIZES:
        page.set_viewport_size(size)
        assert page.evaluate(_SPLIT_LETTERS) == [], size
    assert page.evaluate(_CROPPED_CELLS) == []


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("overview", ".attention tr:first-child td:nth-child(3)"),
        ("overriders", ".matrix .cell"),
        ("overriders-pool", ".diff tr.changed .added code"),
        ("dispatch-explained", ".path > .hook.skip"),
    ],
)
def test_the_content_of_a_page_is_within_a_narrow_screen(
    fleet_console: str, open_page: Callable[..., Any], name: str, shown: str
) -> None:
    page = open_page(fleet_console + PAGES[name], viewport=SIZES[1])
    settle(page)
    box = page.locator(shown).first.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= SIZES[1]["width"]


# The words of an element whose first and last letter are on different lines.
_SPLIT_WORDS = """element => {
  const text = element.firstChild;
  return [...text.data.matchAll(/\\S+/g)].filter(({ index, 0: word }) => {
    const top = (at) => {
      const range = document.createRange();
      range.setStart(text, at);
      range.setEnd(text, at + 1);
      return range.getBoundingClientRect().top;
    };
    return top(index) !== top(index + word.length - 1);
  }).map((one) => one[0]);
}"""


def test_words_of_a_difference_stay_whole_on_a_narrow_screen(fleet_console: str, open_page: Callable[..., Any]) -> None:
    page = open_page(fleet_console + PAGES["overriders-pool"], viewport=SIZES[1])
    cell = page.locator(".diff tr.changed td.added").first
    assert cell.locator("code").evaluate(_SPLIT_WORDS) == []


def test_equal_indentation_of_a_difference_is_at_the_same_place(
    fleet_console: str, open_page: Callable[..., Any]
) -> None:
    page = open_page(fleet_console + PAGES["overriders-pool"], viewport=SIZES[0])
    left = """elements => [...new Set(elements.map((one) => {
      const range = document.createRange();
      range.setStart(one.firstChild, 0);
      range.setEnd(one.firstChild, 1);
      return Math.round(range.getBoundingClientRect().left);
    }))].length"""
    for column in (2, 4):
        lines = page.locator(f".diff tr td:nth-child({column}) code")
        assert page.locator(f".diff tr.changed td:nth-child({column}) code").count() > 0
        assert lines.evaluate_all(left) == 1
    copied = page.locator(".diff td.added code").first.inner_text()
    assert copied.startswith(" ")
