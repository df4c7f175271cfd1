from pathlib import Path

import pytest

from tests.documentation.blocks import Block, list_pages, read_blocks
from tests.documentation.command_lines import (
    find_unknown_options,
    find_unknown_words,
    read_command_lines,
    read_inline_commands,
)
from tests.serving import ROOT

SHOWN = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{block.line}")
    for page in list_pages()
    for block in read_blocks(page)
    if block.language == "sh"
]


@pytest.mark.parametrize("block", SHOWN)
def test_a_shown_command_has_only_known_options(block: Block) -> None:
    assert {tuple(words): found for words in read_command_lines(block) if (found := find_unknown_words(words))} == {}


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_in_the_text_has_only_known_options(page: Path) -> None:
    commands = read_inline_commands(page.read_text(encoding="utf-8"))
    unknown = {tuple(words): [one for one in find_unknown_options(words) if one.startswith("-")] for words in commands}
    assert {words: found for words, found in unknown.items() if found} == {}


def test_commands_are_read_from_blocks_and_texts() -> None:
    block = Block(ROOT, 1, "sh", "A=1 fleethook serve\nkubectl fleethook doctor\n.venv/bin/fleethook lint # all\n", needs_cluster=False, stops_servers=False)  # fmt: skip
    assert list(read_command_lines(block)) == [["fleethook", "serve"], ["fleethook", "doctor"], ["fleethook", "lint"]]
    assert list(read_inline_commands("`fleethook lint [-f DIR]`\n```sh\n`fleethook x`\n```\n")) == [
        ["lint", "-f", "DIR"]
    ]


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("fleethook render -f x.yaml --ouput diff", ["--ouput"]),
        ("fleethook rendre -f x.yaml", ["rendre", "-f"]),
        ("fleethook crds --data-dir /var fetch --version v1.18.0", []),
        ("make chekc", ["chekc"]),
        ("make test ARGS=x", []),
        ("helm install x charts/fleethook --set engines.crd.enabled=true", ["engines.crd.enabled"]),
        ("helm install x charts/fleethook --set engines.crds.enabled=true", []),
    ],
)
def test_an_unknown_word_is_found(line: str, unknown: list[str]) -> None:
    assert find_unknown_words(line.split()) == unknown
