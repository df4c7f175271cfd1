"""CONTRIBUTING names files; each of them exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "app",
    "benchmarks",
    "certs",
    "charts",
    "docs",
    "docsite",
    "examples",
    "requirements",
    "schemas",
    "tests",
)
IN_BACKTICKS = re.compile(r"`((?:" + "|".join(FOLDERS) + r")/[^`\s]*|[\w.-]+\.(?:md|toml|py|yaml))`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)]*\)")


def missing_paths(page: str) -> list[str]:
    """Return the paths of a page, in backticks or as links, that the repository does not have."""
    return sorted({path for path in (*IN_BACKTICKS.findall(page), *LINK.findall(page)) if not (ROOT / path).exists()})


def page() -> str:
    return (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_path_in_contributing_exists() -> None:
    assert missing_paths(page()) == []


MAX_ROWS = 20
"""Rows of the table about changes. Folders say where; a row for each module would repeat their names."""
STEP = re.compile(r"`([\w.-]+/)`")
"""A folder below another one of the row."""


def rows() -> list[str]:
    """Return the rows of the table about changes, without its head."""
    _, _, table = page().partition("## Where do I change …")
    return [row for row in table.splitlines() if row.startswith("| ") and "`" in row]


def missing_steps(row: str) -> list[str]:
    """Return the folders of a row that are below none of its paths; a folder such as ``commands/`` is in each engine."""
    above = [ROOT, *(ROOT / path for path in IN_BACKTICKS.findall(row))]
    above += [ROOT / "app" / "fleethook" / "engines" / "dispatch"] if "its engine" in row else []
    return [step for step in STEP.findall(row) if not any((path / step).is_dir() for path in above)]


def test_contributing_says_where_to_change_things() -> None:
    assert 10 <= len(rows()) <= MAX_ROWS
    assert [row for row in rows() if not IN_BACKTICKS.search(row)] == []


def test_each_folder_of_a_row_exists() -> None:
    assert [step for row in rows() for step in missing_steps(row)] == []
    assert missing_steps("| a metric | `app/fleethook/server/`: `reviews/`, `figures/` |") == ["figures/"]


def test_contributing_says_how_each_engine_works() -> None:
    for engine in ("overrider", "dispatch", "interpret", "crds", "rules"):
        assert re.search(rf"^### {engine}: ", page(), re.MULTILINE | re.IGNORECASE)


def test_a_path_that_does_not_exist_is_found() -> None:
    text = "`app/fleethook/engines/overrider/commands/render.py` `app/fleethook/server/nothing.py` [page](docs/nothing.md#part) `README.md` `nothing.md` `make schemas`"
    assert missing_paths(text) == ["app/fleethook/server/nothing.py", "docs/nothing.md", "nothing.md"]
