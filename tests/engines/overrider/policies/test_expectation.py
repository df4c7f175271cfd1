"""The members that a workload must have."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.overrider.policies.cel_expressions import Unsupported, Writer
from fleethook.engines.overrider.policies.expectation import (
    MAX_ELEMENTS,
    covers,
    cut,
    expect,
    identity_key,
    replaced,
    subtract,
    write_conditions,
)
from fleethook.engines.overrider.render.delta import delta_of
from fleethook.model.json import JSON
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from tests.builders import container, entry, image, patch, pod_template, pool, yurt_app_set
from tests.cel.evaluating import evaluate
from tests.engines.overrider.policies.compiling import plan_of

CONTAINERS = WORKLOAD.fields["spec"].fields["template"].fields["spec"].fields["containers"]


def test_a_member_is_compared_without_an_error_for_a_missing_parent() -> None:
    assert covers("o", {"a": {"b": 1}}, MergeSchema(), Writer(0)) == "(o.?a.?b == optional.of(1))"


def test_an_atomic_list_has_the_same_length() -> None:
    found = covers("o", ["a"], MergeSchema(), Writer(0))
    assert found == '(o.orValue(dyn([])).size() == 1) && (o[?0] == optional.of("a"))'


def test_an_empty_object_only_has_to_exist() -> None:
    assert covers("o", {}, MergeSchema(), Writer(0)) == "(o.hasValue())"


def test_elements_are_found_by_name_in_order_if_it_counts() -> None:
    named = [{"name": "a"}, {"name": "b"}]
    assert '== ["a", "b"]' in covers("o", named, CONTAINERS, Writer(0))
    assert ".size() == 2" in covers("o", named, CONTAINERS, Writer(0), ordered=False)


def test_a_repeated_name_is_refused() -> None:
    with pytest.raises(Unsupported, match="repeats"):
        covers("o", [{"name": "a"}, {"name": "a"}], CONTAINERS, Writer(0))


def test_a_list_that_kube_apiserver_could_not_compare_is_refused() -> None:
    named: list[JSON] = [{"name": f"c{number}"} for number in range(MAX_ELEMENTS + 1)]
    with pytest.raises(Unsupported, match="more than 500 elements"):
        covers("o", named, CONTAINERS, Writer(0))
    assert evaluate(covers("object.?x", named[1:], CONTAINERS, Writer(0), ordered=False), {"x": named[1:]})


def test_an_element_without_a_name_is_refused() -> None:
    with pytest.raises(Unsupported, match="identifies"):
        identity_key({}, CONTAINERS, Writer(0))


LEFT: JSON = [{"key": "a", "mode": 3}]
GONE: JSON = [{"key": "a"}]


@pytest.mark.parametrize(
    ("before", "after", "value", "expected"),
    [
        (LEFT, GONE, LEFT, False),
        (LEFT, GONE, GONE, True),
        (LEFT, GONE, [{"key": "a", "optional": True}], True),
        ({"a": 1, "b": None}, {"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": {}}, {"a": 1}, {"a": 1, "b": {}}, False),
        ({"x": LEFT}, {"x": GONE}, {"x": LEFT}, False),
        ([1, 2], [1], [1, 2], False),
        ("a", "b", "a", False),
        ("a", "b", "b", True),
    ],
)
def test_a_replaced_value_has_no_member_of_the_former_one(
    before: JSON, after: JSON, value: JSON, *, expected: bool
) -> None:
    assert evaluate(replaced("object.?x", before, after, MergeSchema(), Writer(0)), {"x": value}) is expected


def test_a_replaced_list_has_no_element_of_the_former_one() -> None:
    a, b, c = ({"name": name} for name in "abc")
    condition = replaced("object.?x", [a, b], [a], CONTAINERS, Writer(0))
    assert evaluate(condition, {"x": [a, c]})
    assert not evaluate(condition, {"x": [a, b]})


def is_covered(value: JSON, named: JSON, schema: MergeSchema, *, ordered: bool) -> bool:
    """Compare as `covers` says, without CEL."""
    if isinstance(named, dict) and named:
        fields = schema.fields
        return isinstance(value, dict) and all(
            name in value and is_covered(value[name], one, fields.get(name, MergeSchema()), ordered=ordered)
            for name, one in named.items()
        )
    if not isinstance(named, list) or not named:
        return isinstance(named, (dict, list)) or (type(value) is type(named) and value == named)
    found = value if isinstance(value, list) else []
    if not schema.identity:
        pairs = zip(found, named, strict=False)
        return len(found) == len(named) and all(is_covered(*one, MergeSchema(), ordered=ordered) for one in pairs)
    wanted = {one["name"]: one for one in named if isinstance(one, dict)}
    present = [one for one in found if isinstance(one, dict) and one.get("name", "") in wanted]
    names = [str(one.get("name", "")) for one in present]
    inner = MergeSchema(schema.fields)
    return (names == [*wanted] if ordered else sorted(names) == sorted(wanted)) and all(
        is_covered(one, wanted[name], inner, ordered=ordered) for name, one in zip(names, present, strict=True)
    )


def named_list(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(inner, max_size=4, unique_by=lambda one: str(one["name"]))


VALUES = st.sampled_from(["1", "2", 'a"b', "", 1, 2, True, False])
ENV = st.builds(
    lambda name, more: {"name": name, **more}, st.sampled_from("abc"), st.dictionaries(st.just("value"), VALUES)
)
CONTAINER = st.builds(
    lambda name, more: {"name": name, **more},
    st.sampled_from("xyz"),
    st.fixed_dictionaries({}, optional={
        "image": VALUES, "env": named_list(ENV), "args": st.lists(VALUES, max_size=2), "tty": st.booleans(),
        "resources": st.dictionaries(st.sampled_from(["limits", "requests"]), st.just({})),
    }),
)  # fmt: skip


@given(named=named_list(CONTAINER), others=st.lists(CONTAINER, max_size=4), ordered=st.booleans(), data=st.data())
def test_the_condition_in_cel_compares_lists_like_this(
    named: list[dict[str, Any]], others: list[dict[str, Any]], ordered: bool, data: st.DataObject
) -> None:
    """Most random lists differ, so some elements are those of the template."""
    mixed = data.draw(st.permutations([*(named or []), *others]))
    stored: list[JSON] = list(data.draw(st.sampled_from([others, named, [*named, *others], mixed])))
    condition = covers("object.?x", cast("JSON", named), CONTAINERS, Writer(0), ordered=ordered)
    expected = is_covered(stored, cast("JSON", named), CONTAINERS, ordered=ordered)
    assert evaluate(condition, {"x": stored}) == expected
    assert evaluate(condition, {}) == (is_covered([], cast("JSON", named), CONTAINERS, ordered=ordered) and named != [])


def env_of(count: int) -> list[JSON]:
    return [{"name": "c", "env": [{"name": f"E{number}", "value": str(number)} for number in range(count)]}]


@pytest.mark.parametrize("ordered", [True, False])
def test_the_condition_grows_with_the_number_of_elements_and_not_with_its_square(ordered: bool) -> None:
    """kube-apiserver gives an evaluation 1,000,000 units of cost, as this evaluation does."""
    small, large = (covers("object.?x", env_of(count), CONTAINERS, Writer(0), ordered=ordered) for count in (200, 400))
    assert len(large) <= 2.1 * len(small)
    assert evaluate(large, {"x": env_of(400)})
    assert not evaluate(large, {"x": env_of(399)})
    assert large.count(".all(") <= 4


def test_a_repeated_element_does_not_stand_for_a_missing_one() -> None:
    named: list[JSON] = [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]
    condition = covers("object.?x", named, CONTAINERS, Writer(0), ordered=False)
    assert evaluate(condition, {"x": [named[1], named[0]]})
    assert not evaluate(condition, {"x": [named[0], named[0]]})
    assert not evaluate(condition, {"x": [*named, named[0]]})


def test_a_member_of_a_name_that_has_a_default_is_compared() -> None:
    ports, stored = CONTAINERS.fields["ports"], {"x": [{"containerPort": 53}]}
    assert evaluate(covers("object.?x", [{"containerPort": 53}], ports, Writer(0)), stored)
    assert not evaluate(covers("object.?x", [{"containerPort": 53, "protocol": "TCP"}], ports, Writer(0)), stored)


def test_cel_needs_one_type_in_a_map() -> None:
    texts = covers("o", [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}], CONTAINERS, Writer(0))
    assert '{"a": ["1"], "b": ["2"]}' in texts
    mixed = covers("o", [{"name": "a", "image": "1", "tty": True}], CONTAINERS, Writer(0))
    assert '{"a": [dyn("1"), dyn(true)]}' in mixed


RULE = entry("*", items=[image("nginx", "nginx:2")])


def workload(**pods: object) -> dict[str, object]:
    return {"spec": {"template": {"spec": pods}}}


def test_changed_members_are_cut() -> None:
    before = workload(containers=[container("a"), container("b", "b:1")], nodeSelector={"zone": "a"})
    after = workload(containers=[container("b", "b:2")])
    delta = delta_of(before, after, WORKLOAD)
    assert cut(before, delta) == workload(containers=[{"name": "b"}])


def test_the_workload_of_a_pool_has_the_patch_of_the_pool() -> None:
    edge = {"spec": {"template": {"spec": {"containers": [container("edge")]}}}}
    plan = plan_of(RULE, subject=yurt_app_set(pools=[pool("hangzhou", patch=edge)]))
    names = [one["name"] for one in expect(plan, plan.update)["spec"]["template"]["spec"]["containers"]]
    assert names == ["edge", "nginx"]


def test_subtraction_leaves_the_members_that_differ() -> None:
    assert subtract({"a": 1, "b": {"c": 1, "d": 2}}, {"a": 1, "b": {"c": 1, "d": 3}}) == {"b": {"d": 2}}


def test_a_creation_has_the_selector() -> None:
    plan = plan_of(RULE)
    conditions = [*write_conditions(plan, delta=plan.update.delta, writer=Writer(0))]
    created = [one for one in conditions if one.startswith('request.operation != "CREATE" || ')]
    assert any(".?selector" in one for one in created)
    assert not any("containers" in one for one in created)
    assert not any(".?image" in one for one in conditions)


def test_a_removal_from_a_list_that_the_pool_orders_is_refused() -> None:
    own = {"spec": {"template": {"spec": {"volumes": [{"name": "own", "emptyDir": {}}]}}}}
    volumes = [{"name": name, "emptyDir": {}} for name in "ab"]
    subject = yurt_app_set(pools=[pool("hangzhou", patch=own)], template=pod_template(volumes=volumes))
    plan = plan_of(entry("*", patches=[patch("remove", "/spec/template/spec/volumes/[name=a]")]), subject=subject)
    with pytest.raises(Unsupported, match="order of removed elements"):
        list(write_conditions(plan, delta=plan.update.delta, writer=Writer(0)))
