import pytest

from fleethook.model.formats.spelling import nearest, suggestion

KNOWN = ("items", "patches", "pools", "imageClaim", "containerName")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("item", "items"),
        ("imageclaim", "imageClaim"),
        ("conatinerName", "containerName"),
        ("POOLS", "pools"),
        ("image", None),
        ("upgradeStrategy", None),
        ("", None),
        ("x" * 1_000_000, None),
    ],
)
def test_the_nearest_known_name_is_found(name: str, meant: str | None) -> None:
    assert nearest(name, KNOWN) == meant


def test_a_suggestion_ends_a_message() -> None:
    assert suggestion("item", KNOWN) == "; did you mean items?"
    assert suggestion("hangzou", ["hangzhou"], quote="'") == "; did you mean 'hangzhou'?"
    assert suggestion("nothing", KNOWN) == ""
