"""The main task of the pages about CRD tarballs: from the list to an entry."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.console.browser.conftest import has_sideways_scroll
from tests.console.browser.test_frame import HOSTILE
from tests.console.crd_cache import CHANGED, FilledCache, fill_cache, karmada

NARROW = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> FilledCache:
    return fill_cache(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def address(filled: FilledCache, start_console: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a console with a cache of two entries, and two instances."""
    directory: Path = tmp_path_factory.mktemp("instances")
    condition = {"type": "CRDsPrepared", "status": "False", "reason": HOSTILE, "message": HOSTILE * 4}
    documents = [
        {**karmada(url=filled.small.url, sha256=filled.small.sha256), "status": {"conditions": [condition]}},
        karmada("second", url=f"https://h/{'x' * 300}"),
    ]
    (directory / "all.yaml").write_text(yaml.safe_dump_all(documents))
    return start_console(directory, "--crd-cache", str(filled.cache.directory.parent))


@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "java_script_enabled": False}])
def test_the_list_leads_to_an_entry(
    address: str, filled: FilledCache, open_page: Callable[..., Any], options: dict[str, Any]
) -> None:
    page = open_page(f"{address}/crds", **options)
    page.get_by_text("the cache entry has this digest").wait_for()
    assert page.locator("img[src=x]").count() == 0
    assert not has_sideways_scroll(page)
    page.get_by_role("region", name="Cache entries").get_by_role("link", name=filled.small.key[:12]).click()
    page.get_by_text(CHANGED).wait_for()
    assert not has_sideways_scroll(page)
