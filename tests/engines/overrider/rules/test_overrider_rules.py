"""Tests of the rules for an overrider alone; docs/overriders.md has further mistakes (test_mistakes.py)."""

from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.overrider.rules.item_rules import check_image
from fleethook.engines.overrider.rules.overrider_rules import sample_names

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True)
IMAGES = st.sampled_from(
    [
        "r.io/{{nodepool}}/x:1",
        "{{nodepool}}:1",
        "r.io:{{nodepool}}/x:1",
        "x:{{nodepool}}",
        "{{nodepool}}.io/x",
        "a-{{nodepool}}-",
    ]
)


@given(image=IMAGES, names=st.lists(NAMES, min_size=1, max_size=8))
def test_an_image_that_is_valid_for_the_sample_is_valid_for_all_names(image: str, names: list[str]) -> None:
    every = {bool(list(check_image(image, "f", pools=[name]))) for name in names}
    assert bool(list(check_image(image, "f", pools=sample_names(names)))) == (True in every)


def test_a_sample_of_many_names_is_small() -> None:
    assert sample_names([f"pool-{number}" for number in range(5000)] + ["1", "22"]) == ["pool-1000", "22"]
