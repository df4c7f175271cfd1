"""The navigation of the site: each page of docs/ for users has a place, without a list of pages to maintain."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Final

HOME: Final = "index.md"

DEFAULT_SECTION: Final = "Guides"

SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Tutorials": ("tutorials/*",),
    "How-to": ("how-to/*",),
    DEFAULT_SECTION: (),
    "Reference": ("reference/*", "bundle.md", "conventions.md", "python.md", "clients.md"),
    "Explanations": ("explanation/*", "failure-policy.md"),
    "Project": ("project/*",),
}
"""Titles in their order, with patterns of paths below docs/. Other pages are in the default section."""

LINKED_ONLY: Final = ("decisions/*", "performance.md")
"""Patterns of the pages for contributors, decisions and measurements. Other pages link to them."""


def find_section(page: str) -> str:
    """Return the title of the section of a page, by its path below docs/."""
    for title, patterns in SECTIONS.items():
        if any(fnmatchcase(page, pattern) for pattern in patterns):
            return title
    return DEFAULT_SECTION


def is_linked_only(page: str) -> bool:
    """Return whether a page, by its path below docs/, has no place in the navigation."""
    return any(fnmatchcase(page, pattern) for pattern in LINKED_ONLY)


def make_navigation(pages: Iterable[str]) -> list[dict[str, Any]]:
    """Return the value of ``nav`` for MkDocs.

    Args:
        pages: Paths of Markdown files below docs/, with slashes.
    """
    sections: dict[str, list[str]] = {title: [] for title in SECTIONS}
    for page in sorted(pages):
        if page != HOME and not is_linked_only(page):
            sections[find_section(page)].append(page)
    return [{"Home": HOME}, *({title: found} for title, found in sections.items() if found)]
