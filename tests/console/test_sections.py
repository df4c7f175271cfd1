from typing import Any

import pytest

from fleethook.console.sections import find_section, list_sections


@pytest.mark.parametrize(
    ("path", "title"),
    [("/", "Overview"), ("/overriders", "Overriders"), ("/overriders/pool", "Overriders"), ("/crds/", "CRD tarballs")],
)
def test_a_page_belongs_to_the_section_of_its_first_segment(path: Any, title: Any) -> None:
    section = find_section(path)
    assert section is not None
    assert section.title == title


@pytest.mark.parametrize("path", ["/static/main.js", "/overridersx", "/nothing"])
def test_other_paths_have_no_section(path: Any) -> None:
    assert find_section(path) is None


def test_every_section_with_objects_names_the_kinds_that_a_user_must_be_permitted() -> None:
    assert [one.path for one in list_sections() if not one.kinds] == ["/"]
