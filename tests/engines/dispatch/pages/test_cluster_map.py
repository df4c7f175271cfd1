import sys
from collections.abc import Callable
from typing import Any

import pytest

from fleethook.engines.dispatch.pages.cluster_map import (
    MAX_NODES,
    MAX_PLAIN_NODES,
    MAX_ROWS,
    UNKNOWN,
    ClusterMap,
    MapFilter,
    draw_map,
    read_fleet,
)
from tests.engines.dispatch.builders import binding, configuration, export, store_of, webhook

WIDGETS = "widgets.example.org"


def draw(*documents: dict[str, Any], **wanted: Any) -> ClusterMap:
    return draw_map(read_fleet(store_of(*documents)), MapFilter(**wanted))


def names(found: ClusterMap) -> list[str]:
    return [one.id for one in found.nodes]


FLEET = (
    export("p", WIDGETS),
    export("q", "gears.example.org", name="gears"),
    configuration("p", "mutating", webhook()),
    configuration("p", "validating", webhook()),
    binding("a", "p", WIDGETS),
    binding("b", "p", WIDGETS),
    binding("b", "q", "gears.example.org", name="gears", export="gears"),
    configuration("lonely", "mutating", webhook()),
)


def test_the_map_has_clusters_exports_and_bindings() -> None:
    found = draw(*FLEET)
    assert names(found) == ["a", "b", "lonely", "p", "q"]
    assert [(one.consumer, one.provider, one.exports, one.resources) for one in found.edges] == [
        ("a", "p", ("widgets",), (WIDGETS,)),
        ("b", "p", ("widgets",), (WIDGETS,)),
        ("b", "q", ("gears",), ("gears.example.org",)),
    ]
    provider = next(one for one in found.nodes if one.id == "p")
    assert (provider.exports, provider.webhooks) == (("widgets",), 2)
    assert (found.bindings, found.clusters, found.is_collapsed) == (3, 5, False)


def test_a_focus_leaves_a_cluster_and_its_neighbours() -> None:
    found = draw(*FLEET, focus="a")
    assert names(found) == ["a", "p"]
    assert [one.is_focus for one in found.nodes] == [True, False]
    assert names(draw(*FLEET, focus="p")) == ["a", "b", "p"]
    assert names(draw(*FLEET, focus="lonely")) == ["lonely"]
    assert names(draw(*FLEET, focus="<script>")) == []


@pytest.mark.parametrize(
    ("text", "expected"), [("GEAR", ["b", "q"]), ("lone", ["lonely"]), ("widgets", ["a", "b", "p"]), ("none", [])]
)
def test_a_search_leaves_matches_and_their_neighbours(text: str, expected: list[str]) -> None:
    assert names(draw(*FLEET, text=text)) == expected


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ([binding("a", "p", WIDGETS)], "the APIExport widgets is gone from p"),
        ([binding("a", "", WIDGETS)], "does not name the logical cluster"),
        ([binding("a", "p"), export("p", WIDGETS)], "nothing is bound yet"),
        ([binding("a", "p", WIDGETS), export("p", WIDGETS)], ""),
    ],
)
def test_a_binding_that_cannot_work_is_marked(documents: list[dict[str, Any]], problem: str) -> None:
    found = draw(*documents)
    assert bool(found.rows[0].problem) == bool(problem)
    assert problem in found.rows[0].problem
    assert [one.has_problem for one in found.edges] == [bool(problem)]


def test_a_binding_without_a_provider_has_an_edge_to_an_unknown_node() -> None:
    found = draw(binding("a", "", WIDGETS))
    assert names(found) == ["a", UNKNOWN]
    assert found.edges[0].provider == UNKNOWN


def fleet_of(consumers: int) -> list[dict[str, Any]]:
    found = [export("p", WIDGETS), export("q", "gears.example.org", name="gears")]
    for number in range(consumers):
        found.append(binding(f"c{number:04}", "p", WIDGETS))
        if number % 2:
            found.append(binding(f"c{number:04}", "q", "gears.example.org", name="gears", export="gears"))
    return found


def test_two_hundred_clusters_are_a_few_nodes() -> None:
    found = draw(*fleet_of(200))
    assert [(one.label, len(one.clusters)) for one in found.nodes] == [
        ("100 clusters: c0000 …", 100), ("100 clusters: c0001 …", 100), ("p", 1), ("q", 1),
    ]  # fmt: skip
    assert [(one.consumer, one.provider) for one in found.edges] == [("c0000", "p"), ("c0001", "p"), ("c0001", "q")]
    assert (found.bindings, found.clusters, found.is_collapsed) == (300, 202, True)


def test_a_collapsed_map_can_be_expanded_or_focused() -> None:
    documents = fleet_of(200)
    assert len(draw(*documents, expanded=True).nodes) == 202
    assert names(draw(*documents, focus="c0001")) == ["c0001", "p", "q"]
    # The provider stays alone, and its consumers are grouped.
    focused = draw(*documents, focus="p")
    assert names(focused) == ["c0000", "p"]
    assert len(focused.nodes[0].clusters) == 200


def test_small_maps_are_not_collapsed() -> None:
    assert not draw(*fleet_of(MAX_PLAIN_NODES - 2)).is_collapsed
    assert draw(*fleet_of(MAX_PLAIN_NODES - 1)).is_collapsed


def test_a_picture_of_too_many_nodes_is_left_out_but_the_table_stays() -> None:
    found = draw(*fleet_of(MAX_NODES), expanded=True)
    assert (found.nodes, found.edges, found.is_cut) == ((), (), True)
    assert len(found.rows) == found.bindings == MAX_NODES + MAX_NODES // 2
    many = draw(*fleet_of(MAX_ROWS))
    assert (len(many.rows), many.bindings) == (MAX_ROWS, MAX_ROWS + MAX_ROWS // 2)


def test_a_map_of_ten_thousand_bindings_visits_each_binding_a_few_times() -> None:
    calls = []
    for count in (700, 7_000):
        fleet = read_fleet(store_of(*fleet_of(count)))
        calls.append(count_calls(lambda fleet=fleet: draw_map(fleet, MapFilter())))
    assert len(draw_map(fleet, MapFilter()).nodes) == 4
    # Sorting calls a key for each element, so a linear map of ten times the size makes ten times the calls.
    assert calls[1] < 15 * calls[0]


def count_calls(function: Callable[[], object]) -> int:
    """Return the number of calls of functions in Python and in C that a function makes."""
    calls = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls
