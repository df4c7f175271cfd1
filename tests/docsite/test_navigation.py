from docsite.navigation import HOME, find_section, is_linked_only, make_navigation
from tests.serving import ROOT


def flatten(navigation: list[dict[str, object]]) -> list[object]:
    values = [value for entry in navigation for value in entry.values()]
    return [page for value in values for page in (value if isinstance(value, list) else [value])]


def test_each_page_for_users_has_one_place() -> None:
    pages = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    placed = sorted(map(str, flatten(make_navigation(pages))))
    assert placed == [page for page in pages if not is_linked_only(page)]
    assert HOME in placed


def test_decisions_and_measurements_have_no_place() -> None:
    pages = ["index.md", "decisions/0001-rendering.md", "performance.md"]
    assert make_navigation(pages) == [{"Home": "index.md"}]


def test_a_new_page_is_a_guide() -> None:
    assert find_section("console.md") == "Guides"
    assert make_navigation(["index.md", "console.md"]) == [{"Home": "index.md"}, {"Guides": ["console.md"]}]


def test_a_folder_is_a_section() -> None:
    assert find_section("tutorials/overriders.md") == "Tutorials"
    assert find_section("project/support.md") == "Project"


def test_empty_sections_are_left_out() -> None:
    assert make_navigation(["index.md"]) == [{"Home": "index.md"}]
