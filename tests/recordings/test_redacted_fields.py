"""Fields that a setting names."""

import pytest

from fleethook.recordings.redacted_fields import Field, parse_field, replace_at


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("password", Field("*", ("password",))),
        ("/spec/password", Field("", ("spec", "password"))),
        ("Foo:/spec/*/a~1b", Field("Foo", ("spec", "*", "a/b"))),
    ],
)
def test_a_text_names_a_field(text: str, field: Field) -> None:
    assert parse_field(text) == field


@pytest.mark.parametrize("text", ["", "a b", "/*", "/", "Foo:", "Foo:bar", ":/a", "/a~2", "a/b", "Foo Bar:/a"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"names no field|is not a JSON pointer"):
        parse_field(text)


def test_a_star_stands_for_members_and_elements() -> None:
    document = {"spec": {"a": [{"v": 1, "w": 2}, {"v": 3}], "b": 4}}
    assert replace_at(document, ("spec", "*", "*", "v"), lambda _: 0) == {
        "spec": {"a": [{"v": 0, "w": 2}, {"v": 0}], "b": 4}
    }
