"""The fenced blocks of Markdown pages, and the commands in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.serving import ROOT

DOCS: Final = ROOT / "docs"
TUTORIALS: Final = ("overriders", "interpreters", "dispatch", "crds", "admission")
CLUSTER: Final = "<!-- needs a cluster -->"
"""The line before a block that tests/e2e/test_documentation.py runs."""
STOP: Final = "<!-- stop the servers -->"
"""The line before a block that needs the end of the servers."""

_BLOCK: Final = re.compile(r"(?P<mark>^<!-- [^\n]* -->\n+)?^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE)  # fmt: skip
_STEP: Final = re.compile(
    r"^\$ (?P<command>[^\n]*<<'EOF'[^\n]*\n(?:.*\n)*?EOF|(?:.*\\\n)*.*)\n?(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE
)
_PROGRAMS: Final = "fleethook|kubectl|helm|curl|make|docker|pip|python3?|sed|kill|export|for"
COMMAND: Final = re.compile(rf"^(?:\$ |(?:[A-Z_]+=\S* )*(?:\S*/)?(?:{_PROGRAMS}) \S)", re.MULTILINE)
"""The beginning of a line with a command."""


class Step(NamedTuple):
    """A command of a transcript, and the output that the page shows."""

    command: str
    output: str


class Block(NamedTuple):
    """A fenced block."""

    page: Path
    line: int
    language: str
    text: str
    needs_cluster: bool
    stops_servers: bool

    def read_steps(self) -> list[Step]:
        return [Step(found["command"], found["output"]) for found in _STEP.finditer(self.text)]


def list_pages() -> list[Path]:
    """Return the pages for users and contributors in the order in which a reader follows them.

    The decisions have no commands to repeat.
    """
    first = [ROOT / "README.md", *(DOCS / "tutorials" / f"{name}.md" for name in TUTORIALS)]
    first += sorted((DOCS / "how-to").glob("*.md"))
    others = sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "decisions" and path not in first)
    return [*first, *others, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "charts/fleethook/README.md"]


def list_transcripts(*, with_cluster: bool = False) -> list[list[Block]]:
    """Return the blocks to run of each page that has any; with a cluster, of the pages that need one."""
    pages = [[block for block in read_blocks(page) if block.language == "console"] for page in list_pages()]
    if with_cluster:
        return [blocks for blocks in pages if any(block.needs_cluster for block in blocks)]
    return [found for blocks in pages if (found := [block for block in blocks if not block.needs_cluster])]


def read_blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        body = "".join(line.removeprefix(found["indent"]) for line in found["text"].splitlines(keepends=True))
        mark = found["mark"] or ""
        line = text.count("\n", 0, found.start("info")) + 1
        yield Block(page, line, found["info"].strip(), body, CLUSTER in mark, STOP in mark)
