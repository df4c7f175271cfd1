"""The frame of every page: navigation, theme, narrow screens, accessibility, hostile texts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.console.page_frame import list_sections
from tests.console.printed_addresses import console_with_token
from tests.serving import EXAMPLES

PATHS = [*(one.path for one in list_sections()), "/search?q=demo"]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><a href=javascript:alert(3)>x\u202egnp.exe\u2066"


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_readable_without_scripts(console: str, open_page: Callable[..., Any], path: str) -> None:
    page = open_page(console + path, java_script_enabled=False)
    assert page.locator("h1").inner_text()
    assert page.locator("nav[aria-label=Sections] a").count() == len(list_sections())
    assert page.locator("[data-theme-toggle]").is_hidden()


def test_the_keyboard_reaches_the_sections_and_skips_them(console: str, open_page: Callable[..., Any]) -> None:
    page = open_page(console + "/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id == 'main'")
    page.get_by_role("link", name="Overriders").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/overriders")


def test_a_slash_moves_the_focus_to_the_search_which_leads_to_an_object(
    console: str, open_page: Callable[..., Any]
) -> None:
    page = open_page(console + "/")
    page.locator("[data-theme-toggle]").wait_for()
    page.wait_for_load_state("networkidle")
    page.keyboard.press("/")
    page.keyboard.type("story-2/demo1")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="story-2/demo1").click()
    page.wait_for_url("**/overriders/overrider**")


def test_a_slash_that_a_user_types_stays_in_the_field(console: str, open_page: Callable[..., Any]) -> None:
    page = open_page(console + "/interpreters")
    page.wait_for_load_state("networkidle")
    field = page.get_by_role("searchbox", name="apiVersion or kind")
    field.click()
    page.keyboard.type("apps/v1")
    assert field.input_value() == "apps/v1"


def test_the_chosen_theme_is_kept(console: str, open_page: Callable[..., Any]) -> None:
    page = open_page(console + "/", color_scheme="light")
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.get_by_role("button", name="Dark theme").click()
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert light != dark
    page.goto(console + "/overriders")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == light


def test_the_printed_address_opens_the_console(open_page: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    with console_with_token(tmp_path / "manifests", tmp_path) as find_addresses:
        ((origin, path),) = find_addresses()
        page = open_page(origin + path)
        page.get_by_role("heading", level=1, name="Overview").wait_for()
        assert page.url == f"{origin}/"
        page.get_by_role("link", name="Overriders").click()
        page.wait_for_url("**/overriders")
        assert all(one["httpOnly"] and one["sameSite"] == "Strict" for one in page.context.cookies())
        assert "fleethook" not in page.evaluate("document.cookie")
        open_page(origin + "/").get_by_text("open the address that the console has printed").wait_for()


@pytest.mark.parametrize("path", PATHS)
def test_hostile_texts_stay_texts(hostile_console: str, open_page: Callable[..., Any], path: str) -> None:
    page = open_page(hostile_console + path)
    assert page.locator("img[src=x]").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    for script in page.locator("script").all():
        assert script.get_attribute("src").startswith("/static/")


def test_a_hostile_name_is_shown_as_it_is(hostile_console: str, open_page: Callable[..., Any]) -> None:
    page = open_page(hostile_console + "/overriders")
    assert any(HOSTILE in cell for cell in page.locator("td, th").all_inner_texts())


@pytest.fixture(scope="session")
def hostile_console(start_console: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a console on manifests whose every text is hostile."""
    directory: Path = tmp_path_factory.mktemp("hostile")
    documents = [spoil(one) for path in EXAMPLES.rglob("*.yaml") for one in load(path)]
    (directory / "all.yaml").write_text(yaml.safe_dump_all(documents))
    return start_console(directory)


def load(path: Path) -> list[Any]:
    """Return the objects of a file, none for a file that is no manifest."""
    if "testdata" in path.parts:
        return []
    found = yaml.safe_load_all(path.read_text())
    return [one for one in found if isinstance(one, dict) and {"apiVersion", "kind", "metadata"} <= one.keys()]


def spoil(document: dict[str, Any]) -> dict[str, Any]:
    """Return an object with hostile labels, annotations and name; kind and version stay."""
    metadata = document["metadata"]
    changed = {
        **metadata,
        "name": f"{metadata.get('name', '')}{HOSTILE}",
        "labels": {HOSTILE: HOSTILE},
        "annotations": {**metadata.get("annotations", {}), HOSTILE: HOSTILE},
    }
    if "namespace" in metadata:
        changed["namespace"] = f"{metadata['namespace']}{HOSTILE}"
    return {**document, "metadata": changed}
