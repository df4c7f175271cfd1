"""Writes the condition that a workload has all members of a template, as `app.overrider.overlay` compares them."""

from collections.abc import Iterator
from typing import Final

from app.model.json import JSON
from app.model.merge_keys import MergeSchema
from app.overrider.elements import identify
from app.overrider.policies.cel import Unsupported, Writer, join_all, key_of_element, quote

_NO_SCHEMA: Final = MergeSchema()


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
    return join_all([*_Covering(writer, ordered=ordered).conditions(optional, named, schema, 0)])


class _Covering:
    """Writes conditions; ``depth`` is the number of macros around one, for the names of their variables."""

    def __init__(self, writer: Writer, *, ordered: bool) -> None:
        self._writer: Final = writer
        self._ordered: Final = ordered

    def conditions(self, optional: str, named: JSON, schema: MergeSchema, depth: int) -> Iterator[str]:
        if isinstance(named, dict) and named:
            for name, value in named.items():
                inner = schema.fields.get(name, _NO_SCHEMA)
                yield from self.conditions(f"{optional}[?{quote(name)}]", value, inner, depth)
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
        element = f"e{depth}"
        found, list_ = key_of_element(element, schema), f"{optional}.orValue(dyn([]))"
        keys = [identity_key(one, schema, self._writer) for one in named]
        if len(set(keys)) < len(keys):
            raise Unsupported("a list of the template repeats the name of an element")
        wanted = f"[{', '.join(keys)}]"
        present = f"{list_}.map({element}, {found}).filter(k, k in {wanted})"
        yield f"{present} == {wanted}" if self._ordered else f"{present}.size() == {len(keys)}"
        inner = MergeSchema(schema.fields)
        for one, key in zip(named, keys, strict=True):
            rest = join_all([*self.conditions(f"optional.of({element})", one, inner, depth + 1)])
            yield f"{list_}.exists({element}, {found} == {key} && {rest})"


def identity_key(element: JSON, schema: MergeSchema, writer: Writer) -> str:
    """Return the identity of an element of a template; raises Unsupported if it has none."""
    identity = identify(element, schema) if isinstance(element, dict) else None
    if identity is None:
        raise Unsupported("an element of a list lacks the member that identifies it")
    return writer.key(identity)
