from pathlib import Path

import pytest

from docsite.links import BrokenLinkError, replace_outside_links


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.py").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see [`a.py`](../tests/a.py).", "see `tests/a.py`."),
        ("see [the test](../tests/a.py#part).", "see the test (`tests/a.py`)."),
        ("see [a page](other.md#part).", "see [a page](other.md#part)."),
        ("see [a site](https://example.com/../x).", "see [a site](https://example.com/../x)."),
        ("```\n[x](../tests/b.py)\n```\n", "```\n[x](../tests/b.py)\n```\n"),
    ],
)
def test_links_out_of_the_site_become_paths(root: Path, text: str, expected: str) -> None:
    assert replace_outside_links(text, page="page.md", root=root) == expected


def test_links_of_a_page_in_a_folder_start_there(root: Path) -> None:
    assert replace_outside_links("[x](../../tests/a.py)", page="how-to/page.md", root=root) == "x (`tests/a.py`)"
    assert replace_outside_links("[x](../other.md)", page="how-to/page.md", root=root) == "[x](../other.md)"


def test_a_link_to_a_missing_file_fails(root: Path) -> None:
    with pytest.raises(
        BrokenLinkError, match=r"docs/page.md links to \.\./tests/b.py, but the repository has no tests/b.py"
    ):
        replace_outside_links("[x](../tests/b.py)", page="page.md", root=root)
