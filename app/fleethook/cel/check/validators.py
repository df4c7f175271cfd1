"""Checks of literals after the type check, as kube-apiserver configures them (cel-go: cel/validator.go)."""

from collections.abc import Iterator, Sequence

from fleethook.cel.check.types import ERROR, Type, format_type, is_dynamic, unwrap_optional
from fleethook.cel.functions import OverloadResolver, build_resolvers, can_parse
from fleethook.cel.library import FUNCTIONS
from fleethook.cel.library.regexes import compile_pattern
from fleethook.cel.library.strings import CLAUSES, parse_format
from fleethook.cel.parse.syntax import Call, ListLiteral, Literal, MapLiteral, Node, SourceErrors, walk

_PARSED = ("duration", "timestamp")
_RESOLVERS = build_resolvers(function for function in FUNCTIONS if function.name in _PARSED)


def validate(tree: Node, errors: SourceErrors) -> None:
    """Add the errors about literals in a tree: durations, timestamps, patterns, formats, and mixed types."""
    for node in walk(tree):
        if isinstance(node, Call):
            _validate_call(node, errors)
    _validate_literals(tree, errors, exempt=False)


def _validate_call(node: Call, errors: SourceErrors) -> None:
    literal = node.arguments[0] if node.arguments else None
    if isinstance(literal, Literal):
        valid = True
        if node.function in _RESOLVERS:
            valid = _accepts(_RESOLVERS[node.function], literal.value)
        elif node.function == "matches" and isinstance(literal.value, str):
            valid = can_parse(compile_pattern, literal.value)
        if not valid:
            errors.add(literal.offset, f"invalid {node.function} argument")
    if node.function == "format" and isinstance(node.target, Literal) and isinstance(literal, ListLiteral):
        _validate_format(node, str(node.target.value), literal.elements, errors)


def _accepts(convert: OverloadResolver, value: object) -> bool:
    try:
        convert(value)
    except (ValueError, OverflowError, TypeError):
        return False
    return True


def _validate_format(node: Call, text: str, arguments: Sequence[Node], errors: SourceErrors) -> None:
    count = 0
    try:
        for clause in parse_format(text, len(arguments)):
            if not clause.letter:
                continue
            count += 1
            kinds, problem = CLAUSES[clause.letter]
            nested = clause.letter == "s"
            bad = next(_find_bad_arguments(arguments[clause.position], kinds, nested=nested), None)
            if bad is not None:
                shown = (bad.type or ERROR).name
                errors.add(bad.offset, f"error during formatting: {problem} {shown}")
                return
    except ValueError as error:
        errors.add(node.offset, str(error))
        return
    if len(arguments) > count:
        problem = f"too many arguments supplied to string.format (expected {count}, got {len(arguments)})"
        errors.add(node.offset, problem)


def _find_bad_arguments(node: Node, kinds: frozenset[str], *, nested: bool) -> Iterator[Node]:
    found = node.type or ERROR
    if found.kind != "dyn" and _get_kind(found) not in kinds:
        yield node
    elif nested and isinstance(node, ListLiteral | MapLiteral):
        for child in node.list_children():
            for one in [child] if isinstance(node, ListLiteral) else child.list_children():
                yield from _find_bad_arguments(one, kinds, nested=True)


def _get_kind(one: Type) -> str:
    return one.name if one.kind == "wrapper" else one.kind


def _validate_literals(node: Node, errors: SourceErrors, *, exempt: bool) -> None:
    """Check that the elements of each list and map have one type; the arguments of a format may differ."""
    pending = [(node, exempt)]
    while pending:
        one, exempted = pending.pop()
        exempted = exempted or (isinstance(one, Call) and one.function == "format")
        if not exempted and isinstance(one, ListLiteral):
            _compare_types(one.elements, one.optional, errors)
        elif not exempted and isinstance(one, MapLiteral) and not one.name:
            _compare_types([entry.key for entry in one.entries], frozenset(), errors, all_of_them=True)
            optional = frozenset(position for position, entry in enumerate(one.entries) if entry.optional)
            _compare_types([entry.value for entry in one.entries], optional, errors, all_of_them=True)
        pending += [(child, exempted) for child in one.list_children()]


def _compare_types(
    nodes: Sequence[Node], optional: frozenset[int], errors: SourceErrors, *, all_of_them: bool = False
) -> None:
    first: Type | None = None
    for position, node in enumerate(nodes):
        found = node.type or ERROR
        if position in optional:
            found = unwrap_optional(found)[0] if not is_dynamic(found) else found
        if first is None:
            first = found
        elif first != found:
            errors.add(node.offset, f"expected type '{format_type(first)}' but found '{format_type(found)}'")
            if not all_of_them:
                return
