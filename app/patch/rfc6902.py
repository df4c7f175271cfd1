"""JSON Patch as RFC 6902 has it, strictly."""

from collections.abc import Callable, Mapping
from typing import Final

from app.model.json import JSON
from app.patch.draft import Draft, clone
from app.patch.equality import equal
from app.patch.errors import Refusal
from app.patch.pointer import Tokens, index_of, parse, step

Apply = Callable[[Draft], None]

_END: Final = "-"


def compile_operation(operation: Mapping[str, JSON]) -> Apply:
    """Return the function that applies ``operation`` to a draft; raises Refusal if it is malformed."""
    op, path = operation.get("op"), operation.get("path")
    if op not in _COMPILERS:
        raise Refusal(f"op must be one of {', '.join(_COMPILERS)}, not {op!r}")
    if not isinstance(path, str):
        raise Refusal("path is missing")
    return _COMPILERS[op](_tokens(path), operation)


def _tokens(pointer: JSON) -> Tokens:
    if not isinstance(pointer, str):
        raise Refusal("from is missing")
    try:
        return parse(pointer)
    except ValueError as error:
        raise Refusal(str(error)) from None


def _value(operation: Mapping[str, JSON]) -> JSON:
    if "value" not in operation:
        raise Refusal("value is missing")
    return operation["value"]


def _add_at(draft: Draft, tokens: Tokens, value: JSON) -> None:
    if not tokens:
        draft.root = value
        return
    parent, last = draft.parent(tokens, step), tokens[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        index = len(parent) if last == _END else index_of(last)
        if index > len(parent):
            raise Refusal(f"index {index} is out of range: the array has {len(parent)} elements")
        parent.insert(index, value)
    else:
        raise Refusal(f"{last!r} is added to a value that is neither object nor array")


def _remove_at(draft: Draft, tokens: Tokens) -> JSON:
    if not tokens:
        raise Refusal("the whole document cannot be removed")
    parent, last = draft.parent(tokens, step), tokens[-1]
    removed = step(parent, last)
    del parent[last if isinstance(parent, dict) else int(last)]
    return removed


def _resolve(draft: Draft, tokens: Tokens) -> JSON:
    node = draft.root
    for token in tokens:
        node = step(node, token)
    return node


def _compile_add(tokens: Tokens, operation: Mapping[str, JSON]) -> Apply:
    value = _value(operation)
    return lambda draft: _add_at(draft, tokens, value)


def _compile_remove(tokens: Tokens, _operation: Mapping[str, JSON]) -> Apply:
    def apply(draft: Draft) -> None:
        _remove_at(draft, tokens)

    return apply


def _compile_replace(tokens: Tokens, operation: Mapping[str, JSON]) -> Apply:
    value = _value(operation)

    def apply(draft: Draft) -> None:
        if not tokens:
            draft.root = value
            return
        parent, last = draft.parent(tokens, step), tokens[-1]
        step(parent, last)
        parent[last if isinstance(parent, dict) else int(last)] = value

    return apply


def _compile_move(tokens: Tokens, operation: Mapping[str, JSON]) -> Apply:
    source = _tokens(operation.get("from"))
    if len(source) < len(tokens) and tokens[: len(source)] == source:
        raise Refusal("a value cannot be moved into itself")

    def apply(draft: Draft) -> None:
        if source == tokens:
            _resolve(draft, source)
        else:
            _add_at(draft, tokens, _remove_at(draft, source))

    return apply


def _compile_copy(tokens: Tokens, operation: Mapping[str, JSON]) -> Apply:
    source = _tokens(operation.get("from"))
    # Cloned, because a later operation on one of the two places must not reach the other.
    return lambda draft: _add_at(draft, tokens, clone(_resolve(draft, source)))


def _compile_test(tokens: Tokens, operation: Mapping[str, JSON]) -> Apply:
    value = _value(operation)

    def apply(draft: Draft) -> None:
        if not equal(_resolve(draft, tokens), value):
            raise Refusal("the value is another one")

    return apply


_COMPILERS: Final[dict[str, Callable[[Tokens, Mapping[str, JSON]], Apply]]] = {
    "add": _compile_add,
    "remove": _compile_remove,
    "replace": _compile_replace,
    "move": _compile_move,
    "copy": _compile_copy,
    "test": _compile_test,
}
