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


def test_contributing_says_where_to_change_things_and_how_each_engine_works() -> None:
    _, _, table = page().partition("## Where do I change …")
    rows = [row for row in table.splitlines() if row.startswith("| ") and "`" in row]
    assert len(rows) >= 20
    assert [row for row in rows if not IN_BACKTICKS.search(row)] == []
    for engine in ("overrider", "dispatch", "interpret", "crds"):
        assert re.search(rf"^### {engine}: ", page(), re.MULTILINE | re.IGNORECASE)


def test_a_path_that_does_not_exist_is_found() -> None:
    text = "`app/fleethook/engines/overrider/commands/render.py` `app/fleethook/server/nothing.py` [page](docs/nothing.md#part) `README.md` `nothing.md` `make schemas`"
    assert missing_paths(text) == ["app/fleethook/server/nothing.py", "docs/nothing.md", "nothing.md"]
