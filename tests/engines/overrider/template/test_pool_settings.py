"""Two pools share their settings in JSON exactly if they share them with marks."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleethook.engines.overrider.entries.value_marks import POOL_MARK, REPLICAS_MARK
from fleethook.engines.overrider.template.pool_settings import encode_settings, mark_settings

NAMES = st.sampled_from(["a", "b", "key", 'a"', "\\a", "x-a"])


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    """Return the settings of a pool whose name occurs in its placement, alone or within other texts."""
    name = draw(NAMES)
    texts = st.sampled_from([name, f"{name}-x", f'"{name}', "b", POOL_MARK])
    config: dict[str, Any] = {"name": name}
    if draw(st.booleans()):
        expression = {"key": draw(texts), "operator": "In", "values": draw(st.lists(texts, max_size=2))}
        config["nodeSelectorTerm"] = {"matchExpressions": [expression]}
    if draw(st.booleans()):
        config["tolerations"] = [{draw(st.sampled_from(["key", name])): draw(texts)}]
    if draw(st.booleans()):
        config["replicas"] = draw(st.none() | st.integers(0, 2))
    if draw(st.booleans()):
        config["patch"] = {"metadata": {"name": name}}
    return config


@given(settings(), settings())
@example({"name": "a", "tolerations": [{"a": "a"}]}, {"name": "b", "tolerations": [{"b": "b"}]})
@example({"name": "a", "tolerations": [{"key": "a"}]}, {"name": 'a"', "tolerations": [{"key": 'a"'}]})
def test_pools_share_encoded_settings_if_they_share_marked_ones(one: dict[str, Any], other: dict[str, Any]) -> None:
    encoded = [encode_settings(config, None, config["name"]) for config in (one, other)]
    assert (encoded[0] == encoded[1]) == (mark_settings(one) == mark_settings(other))


def test_name_and_replicas_are_marked_and_a_patch_is_not() -> None:
    config = {"name": "a", "replicas": 3, "tolerations": [{"key": "a"}], "patch": {"name": "a"}}
    assert mark_settings(config) == {
        "name": POOL_MARK,
        "replicas": REPLICAS_MARK,
        "tolerations": [{"key": POOL_MARK}],
        "patch": {"name": "a"},
    }
    assert mark_settings({"name": "a", "replicas": None}) == {"name": POOL_MARK, "replicas": None}
    assert mark_settings(None) is None


@pytest.mark.parametrize("config", [None, {"name": "a"}])
def test_taints_belong_to_the_settings(config: dict[str, Any] | None) -> None:
    assert encode_settings(config, [{"key": "x"}], "a") != encode_settings(config, None, "a")
    assert encode_settings(config, [{"key": "x"}], "a") == encode_settings(config, [{"key": "x"}], "a")
