"""Every page, light and dark, on a wide and on a narrow screen: axe-core finds nothing, and nothing is wider."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.console.browser.conftest import has_sideways_scroll
from tests.console.browser.fleet_pages import PAGES, settle

SIZES = ({"width": 1440, "height": 900}, {"width": 390, "height": 844})


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
