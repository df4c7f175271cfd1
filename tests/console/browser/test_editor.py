"""The editor of overriders while its console is gone, and after it is back."""

import contextlib
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import NEW_IMAGE, entry, overrider, pool, yurt_app_set
from tests.console.browser.test_overriders import EDITOR, dump, type_text
from tests.serving import started
from tests.waiting import wait_for

OLD_EFFECT = "The effect below is that of an earlier text."
GONE = "The console does not answer since"
EDIT = dump(overrider(entry("*", items=[{"replicas": 7}])))


@pytest.fixture
def restart(tmp_path: Path) -> Callable[..., Any]:
    """A function that starts a console on the same port again; a context that ends it."""
    (tmp_path / "now.yaml").write_text(yaml.safe_dump_all([yurt_app_set(pools=[pool("a"), pool("b")]), NEW_IMAGE]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    @contextlib.contextmanager
    def start() -> Iterator[str]:
        command = [sys.executable, "-m", "fleethook", "console", "--no-token", "-f", str(tmp_path), "--port", str(port)]
        with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/"):
            yield f"http://127.0.0.1:{port}"

    return start


def test_an_edit_survives_a_restart_of_the_console(restart: Any, open_page: Any) -> None:
    with restart() as console:
        page = open_page(console + EDITOR)
        page.locator(".editor").wait_for()
        page.get_by_text("No findings.").wait_for()
        assert page.get_by_text(OLD_EFFECT).is_hidden()
    type_text(page, EDIT)
    page.get_by_text(OLD_EFFECT).wait_for()
    page.get_by_role("alert").filter(has_text=GONE).wait_for()
    assert page.locator("#report.old").count() == 1
    with restart():
        page.get_by_text("2 of 2 compared workloads differ").first.wait_for()
        page.get_by_text(GONE).wait_for(state="hidden")
        assert page.get_by_text(OLD_EFFECT).is_hidden()
        assert page.locator("textarea[name=text]").input_value() == EDIT


def test_an_edit_survives_a_reload_and_the_stored_text_is_one_click_away(restart: Any, open_page: Any) -> None:
    with restart() as console:
        page = open_page(console + EDITOR)
        page.locator(".editor").wait_for()
        stored = page.locator("textarea[name=text]").input_value()
        type_text(page, EDIT)
        page.get_by_text("2 of 2 compared workloads differ").first.wait_for()
        page.reload()
        page.get_by_text("This is your text from before").wait_for()
        page.get_by_text("2 of 2 compared workloads differ").first.wait_for()
        assert page.locator("textarea[name=text]").input_value() == EDIT
        page.get_by_role("button", name="Show the stored overrider").click()
        page.get_by_text("0 of 2 compared workloads differ").first.wait_for()
        assert page.locator("textarea[name=text]").input_value() == stored
        page.reload()
        page.locator(".editor").wait_for()
        assert page.get_by_text("This is your text from before").is_hidden()


def test_the_effect_that_a_button_asks_for_keeps_the_page(restart: Any, open_page: Any) -> None:
    with restart() as console:
        page = open_page(console + EDITOR)
        page.locator(".editor").wait_for()
    type_text(page, EDIT)
    page.get_by_role("button", name="Show the effect").click()
    page.get_by_role("alert").filter(has_text=GONE).wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as YAML").click()
    assert Path(download.value.path()).read_text() == EDIT
    assert page.locator("textarea[name=text]").input_value() == EDIT


def test_an_open_editor_says_that_its_source_cannot_be_read(restart: Any, open_page: Any, tmp_path: Path) -> None:
    source = tmp_path / "now.yaml"
    with restart() as console:
        page = open_page(console + EDITOR)
        page.locator(".editor").wait_for()
        text = source.read_text()
        source.write_text("kind: [")
        mark = page.get_by_role("alert").filter(has_text="This page shows old data").filter(has_text="now.yaml:")
        mark.wait_for()
        source.write_text(text)
        mark.wait_for(state="hidden")


def test_a_text_from_before_a_change_of_the_stored_overrider_says_so(
    restart: Any, open_page: Any, tmp_path: Path
) -> None:
    with restart() as console:
        page = open_page(console + EDITOR)
        page.locator(".editor").wait_for()
        type_text(page, EDIT)
        page.get_by_text("2 of 2 compared workloads differ").wait_for()
        page.reload()
        page.get_by_text("This is your text from before").wait_for()
        changed = page.get_by_text("The stored overrider has changed since then.")
        assert changed.is_hidden()
        source = tmp_path / "now.yaml"
        source.write_text(source.read_text().replace("nginx:2.0", "nginx:4.0"))
        wait_for(lambda: "nginx:4.0" in page.request.get(console + EDITOR).text(), what="the console reads the file")
        page.reload()
        changed.wait_for()
        page.get_by_role("button", name="Show the stored overrider").click()
        assert "nginx:4.0" in page.locator("textarea[name=text]").input_value()


def test_an_open_page_says_that_its_console_does_not_answer(restart: Any, open_page: Any) -> None:
    with restart() as console:
        page = open_page(console + "/overriders/findings")
    mark = page.get_by_role("alert").filter(has_text=GONE)
    mark.wait_for()
    with restart():
        mark.wait_for(state="hidden")


def test_a_refusal_keeps_the_effect_and_gives_its_reason(restart: Any, open_page: Any) -> None:
    with restart() as console:
        page = open_page(console + EDITOR)
        page.locator(".editor").wait_for()
        page.route("**/overriders/edit**", lambda route: route.fulfill(
            status=401, content_type="text/html", body="<main><p role=alert>this browser has no session</p></main>"
        ))  # fmt: skip
        type_text(page, EDIT)
        page.get_by_role("alert").filter(has_text="refuses this page since").filter(has_text="no session").wait_for()
        page.get_by_text(OLD_EFFECT).wait_for()
        page.unroute("**/overriders/edit**")
        page.get_by_text("2 of 2 compared workloads differ").first.wait_for()
