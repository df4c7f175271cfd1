from typing import Any

import pytest

from fleethook.patch import Dialect, PatchError, PatchLimits, apply

DIALECTS: tuple[Dialect, ...] = ("rfc6902", "kubernetes")


def insertions(count: int, path: str = "/l/0") -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": 1}] * count


@pytest.mark.parametrize("dialect", DIALECTS)
def test_too_many_operations_are_rejected_before_the_first_one_is_applied(dialect: Dialect) -> None:
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
def test_the_limit_counts_the_elements_that_an_operation_moves(dialect: Dialect, operation: Any, moved: int) -> None:
    if (dialect, operation["op"], operation["path"]) == ("rfc6902", "move", "/l/0"):
        moved = 0  # In RFC 6902, a move to its own source does nothing.
    document = {"l": list(range(10))}
    apply(document, [operation], dialect=dialect, limits=PatchLimits(moved=moved))
    if moved:
        with pytest.raises(PatchError, match=f"moves more than {moved - 1} elements of lists, which is the limit"):
            apply(document, [operation], dialect=dialect, limits=PatchLimits(moved=moved - 1))


def test_the_error_names_the_operation_that_exceeds_the_limit() -> None:
    with pytest.raises(PatchError) as raised:
        apply({"l": []}, insertions(5), limits=PatchLimits(moved=3))
    assert (raised.value.index, raised.value.path) == (3, "/l/0")


def test_a_patch_without_limits_is_unlimited() -> None:
    assert len(apply({"l": []}, insertions(20_000, "/l/-"))["l"]) == 20_000


def test_the_size_of_a_patch_is_limited() -> None:
    limits = PatchLimits(size=100)
    limits.check_size(100)
    with pytest.raises(PatchError, match="patch: its text has 101 bytes, and the limit is 100 bytes"):
        limits.check_size(101)
