"""Checked expressions made fit for evaluation: calls are turned to the code of Kubernetes' functions, and counted."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from app.dispatch.cel.counting import count
from app.dispatch.cel.functions import private_name
from app.dispatch.cel.operands import operands_of
from app.dispatch.cel.reads import Path, paths_of
from app.dispatch.cel.tree import Node, call, nodes, read_tree, replace, write_tree

# Where the numbers of nodes begin that are put in here; an expression has at most 100,000 characters.
_FRESH: Final = 10_000_000


class Code(NamedTuple):
    """Where the code of an overload is, and whether expressions get an optional of what it returns."""

    name: str
    optional: bool


class Syntax(NamedTuple):
    """An expression that is ready for evaluation. ``paths`` says what it reads of ``object`` and ``oldObject``."""

    serialized: bytes
    paths: frozenset[Path]


def prepare(serialized: bytes, *, codes: Mapping[str, Code]) -> Syntax:
    """Return the checked expression with its calls of Kubernetes' functions turned to their code.

    Args:
        serialized: as cel-cpp's ``Expression.serialize`` gives it.
        codes: by overload, the code of the functions that cel-cpp does not have.
    """
    checked = read_tree(serialized)
    paths = frozenset(paths_of(checked.expr))
    overloads = {entry.key: tuple(entry.value.overload_id) for entry in checked.references}
    operands = operands_of(checked)
    for node in list(nodes(checked.expr)):
        count(node, operands)
        _turn_to_code(node, overloads.get(node.id, ()), codes)
    # What is called is found by name and arguments at run time; the references of the check name other overloads.
    kept = [entry for entry in checked.references if not entry.value.overload_id]
    del checked.references[:]
    checked.references.extend(kept)
    names = {entry.key for entry in kept}
    for fresh, node in enumerate(nodes(checked.expr), start=1):
        # A variable that is guarded has become a call.
        if not node.id or (node.id in names and (node.HasField("call") or node.HasField("comprehension"))):
            node.id = _FRESH + fresh
    return Syntax(write_tree(checked), paths)


def _turn_to_code(node: Node, overloads: tuple[str, ...], codes: Mapping[str, Code]) -> None:
    """Let a call of a function that cel-cpp does not have call its code."""
    if not overloads or any(overload not in codes for overload in overloads):
        return
    made, code = node.call, codes[overloads[0]]
    arguments = [made.target, *made.args] if made.HasField("target") else list(made.args)
    name = code.name if len(overloads) == 1 else private_name(made.function)
    coded = call(name, *arguments)
    replace(node, call("optional.ofNonZeroValue", coded) if code.optional else coded)
