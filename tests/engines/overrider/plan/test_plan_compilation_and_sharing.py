"""Tests of plans that pools share. test_plan_cache.py compares them with the plan of each pool alone."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from fleethook.engines.overrider.plan.plan_compilation_and_sharing import SharedPlan, encode_settings, mark_settings
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.workload_schema.pool_value_marks import POOL_MARK
from tests.builders import compile_plan, entry, image, overrider, pool, yurt_app_set

RULE = overrider(entry("*", items=[image("nginx", "r.io/{{nodepool}}:1")]))


def share(name: str = POOL_MARK, rule: dict[str, Any] | None = RULE) -> SharedPlan:
    subject = yurt_app_set(pools=[pool(name)])
    plan = compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool=name, node_pool=None)
    return SharedPlan(plan, kind="Deployment", pool=name)


def test_a_pool_whose_element_would_have_the_name_of_another_is_confused() -> None:
    shared = share()
    shared.names = (frozenset({f"v-{POOL_MARK}"}), frozenset({"v-a"}))  # type: ignore[misc]
    assert shared.confuses("a")
    assert not shared.confuses("b")


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
    encoded = [encode_settings(config, None) for config in (one, other)]
    assert (encoded[0] == encoded[1]) == (mark_settings(one) == mark_settings(other))
