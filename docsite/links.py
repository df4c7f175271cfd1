"""Links from a page of docs/ to files of the repository that the site does not contain."""

import posixpath
import re
from pathlib import Path
from typing import Final

_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+(?:\n[^\]\n]+)?)\]\((?P<target>[^)\s#:]+)(?:#[^)\s]*)?\)")
_FENCED: Final = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


class BrokenLinkError(Exception):
    """A page links to a file that the repository does not have."""


def replace_outside_links(text: str, *, page: str, root: Path) -> str:
    """Return a page with the path of the file in place of each link that leaves docs/.

    Args:
        text: The Markdown of the page.
        page: Its path below docs/.
        root: The root of the repository.

    Raises:
        BrokenLinkError: A linked file does not exist.
    """

    def replace(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link["target"]))
        if path.startswith("docs/"):
            return link[0]
        if not (root / path).exists():
            raise BrokenLinkError(f"docs/{page} links to {link['target']}, but the repository has no {path}")
        name = link["text"].replace("`", "")
        return f"`{path}`" if name in path else f"{link['text']} (`{path}`)"

    parts = _FENCED.split(text)
    return "".join(part if index % 2 else _LINK.sub(replace, part) for index, part in enumerate(parts))
