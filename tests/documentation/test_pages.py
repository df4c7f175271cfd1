"""The commands of the README and of docs/: each transcript runs, in order, and prints the output of the page."""

from pathlib import Path

import pytest

from tests.documentation.blocks import COMMAND, Block, list_pages, read_blocks
from tests.documentation.shell import matches, normalize, open_shell
from tests.serving import ROOT

MAX_README_LINES = 150
TUTORIALS = {"overriders", "interpreters", "dispatch", "crds"}


def list_transcripts(page: Path) -> list[Block]:
    return [block for block in read_blocks(page) if block.language == "console" and not block.needs_cluster]


RUNNABLE = [page for page in list_pages() if list_transcripts(page)]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_print_its_output(page: Path, tmp_path: Path) -> None:
    with open_shell(tmp_path) as shell:
        for block in list_transcripts(page):
            shell.run_block(block)


def test_each_engine_has_a_tutorial_that_runs() -> None:
    assert {page.stem for page in RUNNABLE if page.parent.name == "tutorials"} >= TUTORIALS


def test_each_block_with_a_command_is_run_or_checked() -> None:
    """CONTRIBUTING.md describes the languages ``console`` and ``sh``."""
    blocks = [block for page in list_pages() for block in read_blocks(page)]
    unmarked = [block for block in blocks if block.language not in {"console", "sh"} and COMMAND.search(block.text)]
    generated = "docs/reference/"
    assert [
        f"{block.page.relative_to(ROOT)}:{block.line}" for block in unmarked if generated not in str(block.page)
    ] == []


def test_each_line_of_a_transcript_belongs_to_a_command() -> None:
    transcripts = [block for page in list_pages() for block in read_blocks(page) if block.language == "console"]
    wrong = [block for block in transcripts if not block.text.startswith("$ ") or not block.read_steps()]
    assert [f"{block.page}:{block.line}" for block in wrong] == []


def test_the_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MAX_README_LINES


@pytest.mark.parametrize(
    ("shown", "found", "equal"),
    [
        ("a\nb", "a\nb", True),
        ("a\nc", "a\nb", False),
        ("a", "a\nb", False),
        ("b", "a\nb", False),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nd", True),
        ("a\n…\ne", "a\nb\nd", False),
        ("at localhost:9443", "at localhost:31007", True),
    ],
)
def test_an_output_is_compared_line_by_line(shown: str, found: str, *, equal: bool) -> None:
    assert matches(normalize(shown), normalize(found)) is equal


def test_a_heredoc_belongs_to_its_command() -> None:
    text = "$ cat > a <<'EOF'\n$ x\nEOF\n$ cat a\n$ x\n"
    block = Block(ROOT, 1, "console", text, needs_cluster=False, stops_servers=False)
    assert next(step.command for step in block.read_steps()) == "cat > a <<'EOF'\n$ x\nEOF"
