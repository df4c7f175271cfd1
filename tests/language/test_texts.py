"""Every kind of text is found, at its line."""

from pathlib import Path

import pytest

from tests.language.__main__ import main
from tests.language.texts import read_texts

MODULE = '''"""First line.

A paragraph with `code`.

Attributes:
    name: what it is called.
"""

# A comment
# in two lines.
value = 1  # noqa: F841

option = Option("--flag", help="Help " "of a flag.")
counter = Counter("fleethook_x", "Help of a metric.")


def work(log, name):
    """Do it."""
    log.warning(f"{name} is lost")
    raise ValueError(f"no {name} in " + name)
'''
MARKDOWN = """# What it does

A paragraph
in lines.

```
code of it
```

    code, too

- an item
| a cell | another |
"""


def read(path: Path, content: str) -> set[tuple[int, str, str]]:
    path.write_text(content)
    return {(text.line, text.kind, text.words) for text in read_texts(path) if text.words}


def test_a_module_has_comments_docstrings_help_and_messages(tmp_path: Path) -> None:
    assert read(tmp_path / "a.py", MODULE) == {
        (1, "docstring", "First line."),
        (3, "docstring", "A paragraph with X."),
        (5, "docstring", "Attributes:"),
        (6, "docstring", "what it is called."),
        (9, "comment", "A comment in two lines."),
        (13, "help", "Help of a flag."),
        (14, "help", "Help of a metric."),
        (18, "docstring", "Do it."),
        (19, "message", "X is lost"),
        (20, "message", "no X in"),
    }


def test_markdown_has_paragraphs_items_and_cells_but_no_headings_and_code(tmp_path: Path) -> None:
    assert read(tmp_path / "a.md", MARKDOWN) == {
        (3, "prose", "A paragraph in lines."),
        (12, "prose", "an item"),
        (13, "prose", "a cell"),
        (13, "prose", "another"),
    }


def test_the_command_prints_faults_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.md"
    path.write_text("Fine.\n\nWhat is wrong.\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith(f"{path}:3: prose: ")
    path.write_text("Fine.\n")
    assert main([str(tmp_path)]) == 0
