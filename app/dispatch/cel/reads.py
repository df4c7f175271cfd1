"""Which members of the variables an expression reads."""

from collections.abc import Iterator
from typing import TypeAlias

from app.dispatch.cel.tree import Node, children

Path: TypeAlias = tuple[str, ...]


def paths_of(node: Node) -> Iterator[Path]:
    """Yield the members that are read, from the variable on; a path ends where something else than a member is read."""
    path = path_of(node)
    if path is not None:
        yield path
        return
    if node.HasField("call") and node.call.function in ("_==_", "_!=_"):
        left, right = node.call.args
        for one, other in ((left, right), (right, left)):
            path = path_of(one)
            if path is not None and other.HasField("const") and other.const.HasField("null_value"):
                # Whether something is null can be seen without reading any of its members.
                yield (*path, "")
                return
    for child in children(node):
        yield from paths_of(child)


def path_of(node: Node) -> Path | None:
    """Return the path of a plain selection like ``object.metadata.name`` or ``object.?metadata``."""
    if node.HasField("ident"):
        return (node.ident.name,)
    if node.HasField("select"):
        operand = path_of(node.select.operand)
        return None if operand is None else (*operand, node.select.field)
    if node.HasField("call") and node.call.function == "_?._" and len(node.call.args) == 2:
        operand, member = path_of(node.call.args[0]), node.call.args[1]
        if operand is not None and member.HasField("const"):
            return (*operand, member.const.string_value)
    return None
