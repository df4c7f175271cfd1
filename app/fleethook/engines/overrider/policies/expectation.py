"""The members that a workload must have so that a policy's result equals the webhook's."""

from collections.abc import Iterator, Mapping
from typing import Final

from fleethook.engines.overrider.plan.plan import Plan, Variant
from fleethook.engines.overrider.policies.cel_expressions import (
    Unsupported,
    Writer,
    find_member,
    join_all,
    key_of_element,
)
from fleethook.engines.overrider.render.delta import MISSING, Assign, Change, ListDelta, ObjectDelta, apply_delta
from fleethook.engines.overrider.render.member_differences import identify, index_elements
from fleethook.engines.overrider.template.node_affinity import REQUIRED, PoolTemplate
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.merge_keys import WORKLOAD, MergeSchema

_NO_SCHEMA: Final = MergeSchema()
MAX_ELEMENTS: Final = 500
"""To find each of N names in a list costs N * N units of CEL, of which kube-apiserver gives an expression 1,000,000."""


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

    def __init__(self, writer: Writer, *, ordered: bool) -> None:
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


class _Column(Writer):
    """Writes a reference to a row of values instead of each value, and collects the values."""

    def __init__(self, writer: Writer, row: str) -> None:
        super().__init__(writer.texts)
        self._writer: Final = writer
        self._row: Final = row
        self.values: Final[list[JSON]] = []

    def value(self, value: JSON) -> str:
        self.values.append(value)
        return f"{self._row}[{len(self.values) - 1}]"

    def write(self, *, is_mixed: bool) -> str:
        """Return the row as an expression."""
        values = map(self._writer.value, self.values)
        return "[" + ", ".join(f"dyn({value})" if is_mixed else value for value in values) + "]"


def identity_key(element: JSON, schema: MergeSchema, writer: Writer) -> str:
    """Return the identity of an element of a template; raises Unsupported if it has none."""
    identity = identify(element, schema) if isinstance(element, dict) else None
    if identity is None:
        raise Unsupported("an element of a list lacks the member that identifies it")
    return writer.key(identity)


_TERMS: Final = f"object.spec.template.spec.?affinity.?nodeAffinity.?{REQUIRED}"


def expect(plan: Plan, variant: Variant) -> JSONObject:
    """Return the members of a workload that matches its template, with the pool's own patch and placement."""
    made: JSONObject = apply_delta(variant.named, variant.pool_delta)
    pod_spec = as_object(as_object(as_object(made.get("spec")).get("template")).get("spec"))
    if "affinity" not in pod_spec:
        return made
    affinity = as_object(plan.bare["spec"]["template"].get("spec")).get("affinity")
    return _set_pod_member(made, "affinity", affinity)


def _set_pod_member(workload: JSONObject, name: str, value: JSON) -> JSONObject:
    spec, template = workload["spec"], workload["spec"]["template"]
    kept = {member: one for member, one in template["spec"].items() if member != name}
    pod_spec = kept if value is None else {**kept, name: value}
    return {**workload, "spec": {**spec, "template": {**template, "spec": pod_spec}}}


def cut(named: JSON, change: Change | None, schema: MergeSchema = WORKLOAD) -> JSON:
    """Return the members of ``named`` that a difference leaves alone.

    A rendered workload may lack a map or list of which the difference removes all members.
    """
    if type(change) is ObjectDelta and isinstance(named, dict):
        return _cut_members(named, change, schema)
    elements = index_elements(named, schema)
    if type(change) is not ListDelta or elements is None:
        return named
    inner = MergeSchema(schema.fields)
    changed = {one.identity: one.change for one in change.elements}
    return [
        cut(element, changed.get(identity), inner)
        for identity, element in elements.items()
        if type(changed.get(identity)) is not Assign
    ]


def _cut_members(named: JSONObject, change: ObjectDelta, schema: MergeSchema) -> JSONObject:
    changes = dict(change.members)
    made: JSONObject = {}
    for name, value in named.items():
        inner = changes.get(name)
        if type(inner) is Assign:
            continue
        kept = value if inner is None else cut(value, inner, schema.fields.get(name, _NO_SCHEMA))
        if inner is None or kept:
            made[name] = kept
    return made


def subtract(named: JSON, known: JSON) -> JSONObject:
    """Return the members of an object that another one lacks or has with other values."""
    made: JSONObject = {}
    others = as_object(known)
    for name, value in as_object(named).items():
        if name in others and isinstance(value, dict) and isinstance(others[name], dict):
            if inner := subtract(value, others[name]):
                made[name] = inner
        elif name not in others or others[name] != value:
            made[name] = value
    return made


def write_conditions(plan: Plan, *, delta: ObjectDelta, writer: Writer) -> Iterator[str]:
    """Yield the conditions that a workload matches the template where the overrider changes nothing.

    Raises:
        Unsupported: A list of the template repeats a name, or depends on the order of removed elements.
    """
    _check_order(plan.update.pool_delta, plan.update.delta, ())
    wanted = cut(expect(plan, plan.update), delta)
    yield from list_conditions("optional.of(object)", wanted, WORKLOAD, writer, ordered=False)
    if created := subtract(cut(expect(plan, plan.create), plan.create.delta), wanted):
        kept = _drop_replicas(created, delta)
        for inner in list_conditions("optional.of(object)", kept, WORKLOAD, writer, ordered=False):
            yield f'request.operation != "CREATE" || {inner}'
    for path in _removed(plan.update.pool_delta, "optional.of(object)"):
        yield f"!{path}.hasValue()"
    template = plan.template if plan.update.places else plan.template._replace(expressions=())
    yield from _placement(template, writer, checks_affinity=plan.update.places)


def _check_order(of_pool: Change, change: Change, tokens: tuple[str, ...]) -> None:
    """Raise Unsupported if the pool's own patch orders the elements of a list from which the overrider removes some.

    The webhook orders the elements before it removes some, so the removed elements affect the places of others.
    """
    if type(of_pool) is ObjectDelta and type(change) is ObjectDelta:
        changes = dict(change.members)
        for name, inner in of_pool.members:
            if name in changes:
                _check_order(inner, changes[name], (*tokens, name))
    elif type(of_pool) is ListDelta and type(change) is ListDelta:
        if any(one.after_at is None for one in change.elements):
            reason = "the pool's own patch changes this list, too, and the order of removed elements matters"
            raise Unsupported(reason, tokens)
        found = {one.identity: one.change for one in of_pool.elements}
        for one in change.elements:
            if one.identity in found:
                _check_order(found[one.identity], one.change, (*tokens, "*"))


def _drop_replicas(created: JSONObject, delta: ObjectDelta) -> JSONObject:
    """Drop the replicas if the overrider sets them."""
    spec = dict(delta.members).get("spec")
    if type(spec) is not ObjectDelta or "replicas" not in dict(spec.members) or "spec" not in created:
        return created
    return {**created, "spec": {name: one for name, one in created["spec"].items() if name != "replicas"}}


def _removed(change: Change, optional: str) -> Iterator[str]:
    """Yield the members that a pool's own patch removes; elements of lists are compared by their number elsewhere."""
    if type(change) is ObjectDelta:
        for name, inner in change.members:
            yield from _removed(inner, find_member(optional, name))
    elif type(change) is Assign and change.after is MISSING:
        yield optional


def _placement(template: PoolTemplate, writer: Writer, *, checks_affinity: bool) -> Iterator[str]:
    if template.tolerations:
        present = "object.spec.template.spec.?tolerations.orValue(dyn([]))"
        yield f"{writer.value([*template.tolerations])}.all(t, t in {present})"
    terms = f"{_TERMS}.?nodeSelectorTerms.orValue(dyn([]))"
    if template.expressions:
        wanted = writer.value([*template.expressions])
        yield f"{terms}.size() > 0 && {terms}.all(t, {wanted}.all(x, x in t.?matchExpressions.orValue(dyn([]))))"
    elif template.dropped_affinity is not None and checks_affinity:
        yield f"!{_TERMS}.hasValue()"
