"""Tests of the identity and the order of list elements."""

from typing import Any

import pytest

from fleethook.engines.overrider.render.list_elements_and_order import arrange_elements, index_elements
from fleethook.model.merge_keys import WORKLOAD

_SPEC = WORKLOAD.fields["spec"].fields["template"].fields["spec"]
CONTAINERS = _SPEC.fields["containers"]
TOLERATIONS = _SPEC.fields["tolerations"]
COUNT = 500


class Counted(str):
    """A string that counts its comparisons and look-ups."""

    __slots__ = ()
    steps = 0

    def __eq__(self, other: object) -> bool:
        Counted.steps += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Counted.steps += 1
        return str.__hash__(self)


@pytest.fixture
def counted() -> type[Counted]:
    Counted.steps = 0
    return Counted


@pytest.mark.parametrize(("member", "schema"), [("name", CONTAINERS), ("key", TOLERATIONS)])
def test_elements_of_one_name_are_indexed_in_linear_time(counted: type[Counted], member: str, schema: Any) -> None:
    elements: list[Any] = [{member: counted("a"), "number": number} for number in range(COUNT)]
    index = index_elements(elements, schema)
    assert index is not None
    assert [one["number"] for one in index.values()] == list(range(COUNT))
    assert [identity[-1] for identity in index] == list(range(COUNT))
    assert counted.steps <= 20 * COUNT


def test_elements_are_arranged_in_linear_time(counted: type[Counted]) -> None:
    present = [(counted(f"a{number}"), 0) for number in range(COUNT)]
    wanted = [one for number, there in enumerate(reversed(present)) for one in (there, (counted(f"b{number}"), 0))]
    order = arrange_elements(present, wanted, [*present, *wanted])
    assert order == wanted
    assert counted.steps <= 40 * COUNT


@pytest.mark.parametrize(
    ("present", "wanted", "order"),
    [
        ("abc", "ca", "cba"),
        ("abc", "xbya", "xbyac"),
        ("abc", "xy", "xyabc"),
        ("", "xy", "xy"),
        ("abc", "axcy", "axbcy"),
    ],
)
def test_new_elements_follow_their_predecessor(present: str, wanted: str, order: str) -> None:
    made = arrange_elements([(one, 0) for one in present], [(one, 0) for one in wanted], [(one, 0) for one in order])
    assert "".join(str(one) for one, _ in made) == order
