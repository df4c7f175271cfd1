from typing import Any

import pytest

from fleethook.console.sections import SECTIONS
from tests.builders import yurt_app_set
from tests.console.visits import console_of, visit


@pytest.mark.parametrize("path", [one.path for one in SECTIONS])
async def test_every_section_has_a_page(path: Any) -> None:
    answer = await visit(console_of(yurt_app_set()), path)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert b"<h1>" in answer.body


async def test_an_unknown_path_is_a_page_with_the_navigation() -> None:
    answer = await visit(console_of(), "/nothing")
    assert answer.status == 404
    assert b'<a href="/overriders">' in answer.body


async def test_the_schema_of_the_pages_is_not_served() -> None:
    for path in ["/docs", "/openapi.json", "/redoc"]:
        assert (await visit(console_of(), path)).status == 404


@pytest.mark.parametrize("path", ["/static/../application.py", "/static/%2e%2e/application.py", "/static//etc/passwd"])
async def test_only_files_of_the_bundle_are_served(path: Any) -> None:
    assert (await visit(console_of(), path)).status == 404
