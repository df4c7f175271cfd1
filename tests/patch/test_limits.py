from typing import Any

import pytest

from app.patch import Dialect, PatchError, PatchLimits, apply, diff

DIALECTS: tuple[Dialect, ...] = ("rfc6902", "kubernetes")


def insertions(count: int, path: str = "/l/0") -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": 1}] * count


@pytest.mark.parametrize("dialect", DIALECTS)
def test_more_operations_than_the_limit_are_refused_before_any_is_applied(dialect: Dialect) -> None:
    limits = PatchLimits(operations=3)
    assert apply({"l": []}, insertions(3), dialect=dialect, limits=limits) == {"l": [1, 1, 1]}
    with pytest.raises(PatchError, match="patch: it has 4 operations, and the limit is 3 operations"):
        apply({"l": []}, insertions(4), dialect=dialect, limits=limits)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("operation", "moved"),
    [
        ({"op": "add", "path": "/l/0", "value": 1}, 10),
        ({"op": "add", "path": "/l/7", "value": 1}, 3),
        ({"op": "add", "path": "/l/-", "value": 1}, 0),
        ({"op": "remove", "path": "/l/0"}, 10),
        ({"op": "remove", "path": "/l/9"}, 1),
        ({"op": "move", "from": "/l/0", "path": "/l/0"}, 19),
        ({"op": "move", "from": "/l/0", "path": "/l/-"}, 10),
        ({"op": "copy", "from": "/l/0", "path": "/l/0"}, 10),
        ({"op": "replace", "path": "/l/0", "value": 11}, 0),
        ({"op": "add", "path": "/m", "value": 1}, 0),
    ],
)
def test_elements_that_an_operation_moves_are_counted(dialect: Dialect, operation: Any, moved: int) -> None:
    if (dialect, operation["op"], operation["path"]) == ("rfc6902", "move", "/l/0"):
        moved = 0  # RFC 6902 moves nothing where source and target are the same.
    document = {"l": list(range(10))}
    apply(document, [operation], dialect=dialect, limits=PatchLimits(moved=moved))
    if moved:
        with pytest.raises(PatchError, match=f"moves more than {moved - 1} elements of lists, which is the limit"):
            apply(document, [operation], dialect=dialect, limits=PatchLimits(moved=moved - 1))


def test_the_error_names_the_operation_that_goes_beyond_the_limit() -> None:
    with pytest.raises(PatchError) as raised:
        apply({"l": []}, insertions(5), limits=PatchLimits(moved=3))
    assert (raised.value.index, raised.value.path) == (3, "/l/0")


def test_a_patch_that_is_made_here_has_no_limit() -> None:
    assert len(apply({"l": []}, insertions(20_000, "/l/-"))["l"]) == 20_000


def test_a_list_that_is_shifted_is_replaced_as_a_whole() -> None:
    before = {"spec": {"l": [{"n": number} for number in range(5_000)]}}
    after = {"spec": {"l": [*before["spec"]["l"][1:], before["spec"]["l"][0]]}}
    assert diff(before, after) == [{"op": "replace", "path": "/spec/l", "value": after["spec"]["l"]}]


def test_members_that_all_change_are_replaced_as_a_whole() -> None:
    long = "x" * 100
    before = {"spec": {"m": {f"k{number}": {"a": long, "n": number} for number in range(5_000)}}}
    after = {"spec": {"m": {name: {**one, "n": -1} for name, one in before["spec"]["m"].items()}}}
    assert diff(before, after) == [{"op": "replace", "path": "/spec/m", "value": after["spec"]["m"]}]
