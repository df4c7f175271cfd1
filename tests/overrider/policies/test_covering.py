"""The condition that a workload has the members of a template. tests/e2e/test_policies.py evaluates it."""

import pytest

from app.model.merge_keys import WORKLOAD, MergeSchema
from app.overrider.policies.cel import Unsupported, Writer
from app.overrider.policies.covering import covers, identity_key

CONTAINERS = WORKLOAD.fields["spec"].fields["template"].fields["spec"].fields["containers"]


def test_a_member_is_compared_without_an_error_for_a_missing_parent() -> None:
    assert covers("o", {"a": {"b": 1}}, MergeSchema(), Writer(0)) == '(o[?"a"][?"b"] == optional.of(1))'


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


def test_an_element_without_a_name_is_refused() -> None:
    with pytest.raises(Unsupported, match="identifies"):
        identity_key({}, CONTAINERS, Writer(0))
