"""The commands of the README and of docs/: each transcript runs, in order, and prints the output of the page."""

import re
from pathlib import Path

import pytest

from tests.documentation.blocks import COMMAND, TUTORIALS, Block, list_pages, list_transcripts, read_blocks
from tests.documentation.own_network import MAX_SECONDS, run_in_own_network
from tests.documentation.shell import matches, normalize
from tests.serving import ROOT

MAX_README_LINES = 150
FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


@pytest.mark.timeout(MAX_SECONDS)
def test_a_reader_runs_all_pages_in_one_clone(tmp_path: Path) -> None:
    run_in_own_network(Path(__file__).with_name("pages.py"), tmp_path)


def test_each_engine_has_a_tutorial_that_runs() -> None:
    pages = [blocks[0].page for blocks in list_transcripts()]
    with_cluster = [blocks[0].page for blocks in list_transcripts(with_cluster=True)]
    assert [page.stem for page in [*pages, *with_cluster] if page.parent.name == "tutorials"] == list(TUTORIALS)
    assert pages[0] == ROOT / "README.md"


def test_each_block_with_a_command_is_run_or_checked() -> None:
    """CONTRIBUTING.md describes the languages ``console`` and ``sh``."""
    blocks = [block for page in list_pages() for block in read_blocks(page)]
    unmarked = [block for block in blocks if block.language not in {"console", "sh"} and COMMAND.search(block.text)]
    generated = "docs/reference/"
    assert [
        f"{block.page.relative_to(ROOT)}:{block.line}" for block in unmarked if generated not in str(block.page)
    ] == []


def test_each_command_is_in_a_fenced_block() -> None:
    found = [
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in list_pages()
        for line in FENCED.sub("", page.read_text(encoding="utf-8")).splitlines()
        if line.startswith("    ") and COMMAND.match(line.strip())
    ]
    assert found == []


def test_each_line_of_a_transcript_belongs_to_a_command() -> None:
    transcripts = [block for page in list_pages() for block in read_blocks(page) if block.language == "console"]
    wrong = [block for block in transcripts if not block.text.startswith("$ ") or not block.read_steps()]
    assert [f"{block.page}:{block.line}" for block in wrong] == []


def test_the_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MAX_README_LINES


def test_the_first_lines_of_the_readme_show_each_user_a_command_and_a_picture() -> None:
    first = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:15]
    users = [line for line in first if re.search(r"\[`fleethook [a-z ]+`\]\(docs/tutorials/", line)]
    tutorials = {name for line in users for name in re.findall(r"docs/tutorials/(\w+)\.md", line)}
    assert (len(users), tutorials) == (5, set(TUTORIALS))
    assert any(line.startswith("![") for line in first)


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
        ("at localhost:9443", "at localhost:31007", False),
        (f"sha256:{'a' * 64} 404 bytes", f"sha256:{'b' * 64} 1,246 bytes", True),
    ],
)
def test_an_output_is_compared_line_by_line(shown: str, found: str, *, equal: bool) -> None:
    assert matches(normalize(shown), normalize(found)) is equal


def test_a_heredoc_belongs_to_its_command() -> None:
    text = "$ cat > a <<'EOF'\n$ x\nEOF\n$ cat a\n$ x\n"
    block = Block(ROOT, 1, "console", text, needs_cluster=False, stops_servers=False)
    assert next(step.command for step in block.read_steps()) == "cat > a <<'EOF'\n$ x\nEOF"
