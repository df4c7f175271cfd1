"""The main tasks of the sections Dispatch and Interpreters."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.console.browser.conftest import has_sideways_scroll
from tests.console.pages.reading import HOSTILE
from tests.engines.dispatch.builders import binding, configuration, webhook
from tests.serving import EXAMPLES

WIDGET = (EXAMPLES / "kcp-widgets" / "testdata" / "widget.yaml").read_text()


def type_into(page: Any, name: str, text: str) -> None:
    """Replace the text of an editor as a user does."""
    # A script replaces the textarea of the same name. A click that found the textarea first would wait for it in vain.
    page.locator(f'.cm-content[role="textbox"][aria-label="{name}"]').click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def type_script(page: Any, text: str) -> None:
    type_into(page, "Script", text)


def explain_widget(page: Any) -> None:
    """Fill and send the form."""
    form = page.locator("form[method=post][action='/dispatch#verdict']")
    form.get_by_label("Object", exact=True).fill(WIDGET)
    form.get_by_label("Cluster").fill("ws2")
    form.get_by_label("Operation").select_option("UPDATE")
    form.get_by_role("button", name="Explain").click()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_pasted_object_is_explained(open_page: Callable[..., Any], console: str, *, scripts: bool) -> None:
    page = open_page(f"{console}/dispatch", java_script_enabled=scripts)
    explain_widget(page)
    heading = page.get_by_role("heading", name="UPDATE of widgets.example.org")
    heading.wait_for()
    # The answer is below two forms, so the address leads to it.
    page.wait_for_function("() => document.getElementById('verdict').getBoundingClientRect().top < innerHeight")
    assert page.url.endswith("#verdict")
    page.wait_for_function("() => document.activeElement.id == 'verdict'")
    page.locator(".hook.call > details:not([open])").first.wait_for()
    page.locator(".hook.skip > details:not([open])").first.filter(has_text="rules").wait_for()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_script_runs_in_the_playground(open_page: Callable[..., Any], console: str, *, scripts: bool) -> None:
    page = open_page(f"{console}/interpreters/playground?operation=ReviseReplica", java_script_enabled=scripts)
    page.get_by_role("button", name="Run").click()
    result = page.locator("[data-result]")
    result.wait_for()
    result.filter(has_text="players: 4").filter(has_text="Instructions").wait_for()


def test_an_error_of_a_script_selects_its_line(open_page: Callable[..., Any], console: str) -> None:
    page = open_page(f"{console}/interpreters/playground")
    type_script(page, "function InterpretHealth(obj)\n  return obj.a.b\nend")
    page.get_by_role("button", name="Run").click()
    page.locator("#error-code").wait_for()
    page.locator(".cm-lintRange-error").filter(has_text=re.compile("^ *return obj.a.b$")).wait_for()
    page.locator(".cm-lint-marker-error").wait_for()
    page.wait_for_function("document.activeElement.className == 'editor'")


def test_the_editor_colours_the_script_and_the_form_sends_its_text(open_page: Callable[..., Any], console: str) -> None:
    page = open_page(f"{console}/interpreters/playground?operation=InterpretHealth")
    type_script(page, "function unfinished")
    page.locator(".cm-line span").filter(has_text=re.compile("^function$")).wait_for()
    page.get_by_role("button", name="Run").click()
    page.locator("#error-code").wait_for()
    assert page.locator("textarea[name=code]").input_value() == "function unfinished"


def test_an_error_in_an_object_is_shown_at_its_line(open_page: Callable[..., Any], console: str) -> None:
    page = open_page(f"{console}/interpreters/playground?operation=InterpretHealth")
    type_into(page, "Object", "a: 1\nb: [")
    page.get_by_role("button", name="Run").click()
    page.locator("#error-desired").wait_for()
    page.locator(".cm-lint-marker-error").wait_for()


def test_hostile_texts_run_nothing(
    open_page: Callable[..., Any], start_console: Callable[..., str], tmp_path: Path
) -> None:
    """A dialog, a script's error or a foreign request fails the test."""
    documents: list[Any] = []
    for number, text in enumerate(HOSTILE):
        documents.append(binding(f"c{number}", text, text, name=f"n{number}", export=text))
        documents.append(configuration(f"c{number}", "mutating", webhook(text, rules=[{"operations": [text]}])))
    (tmp_path / "hostile.yaml").write_text(yaml.safe_dump_all(documents))
    address = start_console(tmp_path)
    for path in ("/dispatch", "/interpreters"):
        page = open_page(address + path)
        page.wait_for_load_state("networkidle")
    page = open_page(f"{address}/interpreters/playground")
    type_script(page, f"function InterpretHealth(o) error({json.dumps(HOSTILE[1])}) end")
    page.get_by_role("button", name="Run").click()
    page.locator("#error-code").wait_for()
    page.locator("#error-code").filter(has_text=HOSTILE[1]).wait_for()


def test_a_narrow_window_shows_all_operations_of_a_kind(open_page: Callable[..., Any], console: str) -> None:
    page = open_page(f"{console}/interpreters", viewport={"width": 390, "height": 844})
    cells = page.locator("table.operations tbody tr").first.locator("td").all()
    assert len(cells) > 1
    for cell in cells:
        box = cell.bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= 390
    assert "InterpretReplica" in page.evaluate(
        "getComputedStyle(document.querySelector('table.operations td'), '::before').content"
    )
    assert not has_sideways_scroll(page)
