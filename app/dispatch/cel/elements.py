"""What loops over members of the request read of their elements.

In ``object.spec.containers.all(c, c.image != c.name)`` all steps together read ``object.spec.containers.*.image`` and
``….*.name`` once. So it is counted once before the loop, and not in each step.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from app.dispatch.cel.reads import Path, path_of
from app.dispatch.cel.tree import Node, children

# Each element of a list, or each value of a map.
ANY: Final = "*"


class Use(NamedTuple):
    """One node that reads a member of a loop's variable.

    Attributes:
        node: its number.
        path: what all steps together read there.
        loop: the number of the loop before which that can be counted.
    """

    node: int
    path: Path
    loop: int


class _Elements(NamedTuple):
    names: tuple[str, ...]
    path: Path
    loop: int


def elements_of(root: Node, ranges: Mapping[int, Path]) -> Iterator[Use]:
    """Yield the operands that are the variable of the innermost loop, or a member of it.

    Args:
        root: the expression.
        ranges: the paths of the nodes that are members of the request, by their numbers.
    """
    yield from _uses(root, ranges, None)


def _uses(node: Node, ranges: Mapping[int, Path], elements: _Elements | None) -> Iterator[Use]:
    if node.HasField("comprehension"):
        loop = node.comprehension
        inside = _inside(node, ranges, elements)
        outside = None if elements is not None and loop.accu_var in elements.names else elements
        for below in (loop.iter_range, loop.accu_init):
            yield from _uses(below, ranges, elements)
        for below in (loop.loop_condition, loop.loop_step):
            yield from _uses(below, ranges, inside)
        yield from _uses(loop.result, ranges, outside)
        return
    for below in children(node):
        path = None if elements is None or node.HasField("select") else _path_in(below, elements)
        if path is not None and elements is not None:
            yield Use(below.id, path, elements.loop)
        yield from _uses(below, ranges, elements)


def _inside(node: Node, ranges: Mapping[int, Path], elements: _Elements | None) -> _Elements | None:
    """Return what the variables of a loop are, if they are elements of the request in the order of nested loops."""
    loop = node.comprehension
    names = tuple(name for name in (loop.iter_var, loop.iter_var2) if name)
    if loop.iter_range.id in ranges:
        return _Elements(names, (*ranges[loop.iter_range.id], ANY), node.id)
    path = None if elements is None else _path_in(loop.iter_range, elements)
    return None if path is None or elements is None else _Elements(names, (*path, ANY), elements.loop)


def _path_in(node: Node, elements: _Elements) -> Path | None:
    path = path_of(node)
    return (*elements.path, *path[1:]) if path is not None and path[0] in elements.names else None
