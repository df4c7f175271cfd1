"""Selectors and conditions that no request matches."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.dispatch.lint.filters import find_contradictions
from fleethook.model.formats.labels import compile_selector
from tests.engines.dispatch.builders import webhook
from tests.engines.dispatch.lint.builders import NODES, WIDGET, list_codes, selecting, validating


@pytest.mark.parametrize(
    ("selector", "codes"),
    [
        ({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a"]}]}, []),
        (
            {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a"]}]},
            ["suspicious"],
        ),
        ({"matchLabels": {"a": "b"}}, ["suspicious"]),
    ],
)
def test_a_selector_of_nodes_that_exempts_namespaces_is_no_finding(selector: Any, codes: list[str]) -> None:
    assert list_codes(validating(webhook(rules=[NODES], namespaceSelector=selector))) == codes


def test_invalid_selectors_are_reported_once() -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}
    assert list_codes(WIDGET, validating(selecting(**selector))) == ["invalid"]


_KEYS, _VALUES = st.sampled_from("ab"), st.sampled_from("xyz")


_REQUIREMENTS = st.one_of(
    st.fixed_dictionaries({"key": _KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    st.fixed_dictionaries(
        {"key": _KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(_VALUES, min_size=1)}
    ),
)


_SELECTORS = st.fixed_dictionaries(
    {"matchLabels": st.dictionaries(_KEYS, _VALUES), "matchExpressions": st.lists(_REQUIREMENTS, max_size=5)}
)


@given(_SELECTORS)
def test_contradictions_are_exactly_the_selectors_that_match_no_labels(selector: dict[str, Any]) -> None:
    selects = compile_selector(selector)
    # "other" stands for each value that the selector does not name, None for a missing label.
    each = [None, "x", "y", "z", "other"]
    labels = [{key: value for key, value in (("a", a), ("b", b)) if value} for a in each for b in each]
    assert bool(list(find_contradictions(selector))) == (not any(map(selects, labels)))
