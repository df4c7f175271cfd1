"""Hooks of MkDocs: the navigation from the files, and links to the repository (mkdocs.yml)."""

from pathlib import Path
from typing import Any, Final

from pathspec import GitIgnoreSpec

from docsite.links import replace_outside_links
from docsite.navigation import LINKED_ONLY, make_navigation

ROOT: Final = Path(__file__).parents[1]


def on_config(config: Any) -> Any:
    """Set the navigation from the pages of docs/."""
    docs = Path(config.docs_dir)
    config.nav = make_navigation(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    config.not_in_nav = GitIgnoreSpec.from_lines(LINKED_ONLY)
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace the links of a page that leave docs/."""
    return replace_outside_links(markdown, page=page.file.src_uri, root=ROOT)
