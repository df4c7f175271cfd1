"""Writes the condition that a workload has all members of a template, as `overrider.overlay` compares them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from fleethook.engines.overrider.policies.cel import Unsupported, Writer, find_member, join_all, key_of_element
from fleethook.engines.overrider.render.keyed_elements import identify
from fleethook.model.json import JSON
from fleethook.model.merge_keys import MergeSchema

_NO_SCHEMA: Final = MergeSchema()
MAX_ELEMENTS: Final = 500
"""To find each of N names in a list costs N * N units of CEL, of which kube-apiserver gives an expression 1,000,000."""


class ValueWriter(Protocol):
    """Writes the values of a comparison."""

    def value(self, value: JSON) -> str:
        """Return a JSON value as an expression."""

    def key(self, identity: Sequence[JSON]) -> str:
        """Return the identity of an element as an expression."""


def covers(optional: str, named: JSON, schema: MergeSchema, writer: Writer, *, ordered: bool = True) -> str:
    """Return the condition that a value has all members of ``named``; it may have others.

    Args:
        optional: An expression of the value, an optional.
        named: The desired value.
        schema: Its merge schema. The elements of lists with an identity are found by it, in the order of ``named``.
        writer: Writes the values.
        ordered: Whether the elements must have the order of ``named``.

    Raises:
        Unsupported: A list repeats an identity.
    """
    return join_all(list_conditions(optional, named, schema, writer, ordered=ordered))


def list_conditions(
    optional: str, named: JSON, schema: MergeSchema, writer: Writer, *, ordered: bool = True
) -> list[str]:
    """Return the conditions whose conjunction `covers` returns."""
    return [*_Covering(writer, ordered=ordered).conditions(optional, named, schema, 0)]


def replaced(optional: str, before: JSON, after: JSON, schema: MergeSchema, writer: Writer) -> str:
    """Return the condition that a value is ``after``, and has no member that only ``before`` has.

    Raises:
        Unsupported: A list repeats an identity.
    """
    return join_all(
        [*list_conditions(optional, after, schema, writer), *_gone(optional, before, after, schema, writer)]
    )


def _gone(optional: str, before: JSON, after: JSON, schema: MergeSchema, writer: Writer) -> Iterator[str]:
    """Yield the conditions that a value lacks the members that ``after`` lacks and ``before`` has."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            found, inner = find_member(optional, name), schema.fields.get(name, _NO_SCHEMA)
            if name in after:
                yield from _gone(found, value, after[name], inner, writer)
            elif value is not None:
                yield f"!{found}.hasValue()"
    elif isinstance(before, list) and isinstance(after, list) and schema.identity:
        kept = {identity_key(one, schema, writer) for one in after}
        gone = [key for key in (identity_key(one, schema, writer) for one in before) if key not in kept]
        if gone:
            yield f"!{optional}.orValue(dyn([])).exists(e, {key_of_element('e', schema)} in [{', '.join(gone)}])"
    elif isinstance(before, list) and isinstance(after, list):
        for number, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _gone(f"{optional}[?{number}]", old, new, _NO_SCHEMA, writer)


class _Covering:
    """Writes conditions; ``depth`` is the number of macros around one, for the names of their variables."""

    def __init__(self, writer: ValueWriter, *, ordered: bool) -> None:
        self._writer: Final = writer
        self._ordered: Final = ordered

    def conditions(self, optional: str, named: JSON, schema: MergeSchema, depth: int) -> Iterator[str]:
        if isinstance(named, dict) and named:
            for name, value in named.items():
                inner = schema.fields.get(name, _NO_SCHEMA)
                yield from self.conditions(find_member(optional, name), value, inner, depth)
        elif isinstance(named, list) and named and schema.identity:
            yield from self._elements(optional, named, schema, depth)
        elif isinstance(named, list) and named:
            yield f"{optional}.orValue(dyn([])).size() == {len(named)}"
            for number, value in enumerate(named):
                yield from self.conditions(f"{optional}[?{number}]", value, _NO_SCHEMA, depth)
        elif isinstance(named, (dict, list)):
            yield f"{optional}.hasValue()"
        else:
            yield f"{optional} == optional.of({self._writer.value(named)})"

    def _elements(self, optional: str, named: list[JSON], schema: MergeSchema, depth: int) -> Iterator[str]:
        element, names = f"e{depth}", f"n{depth}"
        found, list_ = key_of_element(element, schema), f"{optional}.orValue(dyn([]))"
        keys = [identity_key(one, schema, self._writer) for one in named]
        if len(set(keys)) < len(keys):
            raise Unsupported("a list of the template repeats the name of an element")
        if len(keys) > MAX_ELEMENTS:
            raise Unsupported(f"a list of the template has more than {MAX_ELEMENTS} elements with a name")
        wanted = f"[{', '.join(keys)}]"
        present = f"{names}.filter(k, k in {wanted})"
        same = (
            f"{present} == {wanted}"
            if self._ordered
            else f"{present}.size() == {len(keys)} && {wanted}.all(k, k in {names})"
        )
        yield f"[{list_}.map({element}, {found})].map({names}, {same})[0]"
        yield from self._members(list_, found, dict(zip(keys, named, strict=True)), schema, depth)

    def _members(
        self, list_: str, found: str, named: Mapping[str, JSON], schema: MergeSchema, depth: int
    ) -> Iterator[str]:
        """Yield the conditions of the members of elements; elements with the same members are compared in one pass."""
        element, table, inner = f"e{depth}", f"t{depth}", MergeSchema(schema.fields)
        # Equal names imply equal members that the name consists of.
        known = {member for member, default in schema.identity if default is None and len(schema.identity) == 1}
        alike: dict[str, dict[str, _Column]] = {}
        for key, one in named.items():
            column = _Column(self._writer, f"{table}[{found}]")
            rest = {name: value for name, value in one.items() if name not in known} if isinstance(one, dict) else one
            if rest:
                conditions = _Covering(column, ordered=self._ordered).conditions(
                    f"optional.of({element})", rest, inner, depth + 1
                )
                alike.setdefault(join_all([*conditions]), {})[key] = column
        for condition, columns in alike.items():
            # cel-go checks the type of a map at once if its values have one type.
            is_mixed = len({type(value) for column in columns.values() for value in column.values}) > 1
            values = ", ".join(f"{key}: {column.write(is_mixed=is_mixed)}" for key, column in columns.items())
            yield f"[{{{values}}}].map({table}, {list_}.all({element}, !({found} in {table}) || {condition}))[0]"


class _Column:
    """Writes a reference to a row of values instead of each value, and collects the values."""

    def __init__(self, writer: ValueWriter, row: str) -> None:
        self._writer: Final = writer
        self._row: Final = row
        self.values: Final[list[JSON]] = []

    def value(self, value: JSON) -> str:
        self.values.append(value)
        return f"{self._row}[{len(self.values) - 1}]"

    def key(self, identity: Sequence[JSON]) -> str:
        return self._writer.key(identity)

    def write(self, *, is_mixed: bool) -> str:
        """Return the row as an expression."""
        values = map(self._writer.value, self.values)
        return "[" + ", ".join(f"dyn({value})" if is_mixed else value for value in values) + "]"


def identity_key(element: JSON, schema: MergeSchema, writer: ValueWriter) -> str:
    """Return the identity of an element of a template; raises Unsupported if it has none."""
    identity = identify(element, schema) if isinstance(element, dict) else None
    if identity is None:
        raise Unsupported("an element of a list lacks the member that identifies it")
    return writer.key(identity)
