import pytest

from tests.documentation.blocks import Block, list_pages, read_blocks
from tests.documentation.command_lines import find_unknown_words, read_command_lines
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
