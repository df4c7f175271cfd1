"""Writes the changes of a plan as CEL: JSON patch operations, found by the names of elements at any index."""

from collections.abc import Mapping
from typing import Final

from fleethook.engines.overrider.policies.cel_expressions import (
    Node,
    Unsupported,
    Variables,
    Writer,
    key_of_element,
    patch,
)
from fleethook.engines.overrider.policies.expectation import covers, replaced
from fleethook.engines.overrider.render.delta import MISSING, Assign, Change, Element, ListDelta, ObjectDelta
from fleethook.engines.overrider.render.member_differences import Identity, index_elements
from fleethook.engines.overrider.render.overlay import EXCLUSIVE
from fleethook.model.json import JSON, JSONObject
from fleethook.model.merge_keys import MergeSchema

_NO_SCHEMA: Final = MergeSchema()
_ANNOTATIONS: Final = ("metadata", "annotations")


class OperationsWriter:
    """Collects the operations of one form, in order.

    Attributes:
        variables: The variables of the policy.
        writer: Writes the values.
        operations: Expressions of lists of operations.
        agreed: Conditions under which the result equals the webhook's.
        conflicts: Conditions under which another client has set a value where the overrider adds one.
    """

    def __init__(
        self, variables: Variables, writer: Writer, *, own: str, defaults: Mapping[tuple[str, ...], JSON]
    ) -> None:
        """Start without operations.

        Args:
            variables: The variables of the policy.
            writer: Writes the values.
            own: The condition that an earlier version of the overrider has set the added values.
            defaults: The values that kube-apiserver fills in at the places of added members.
        """
        self.variables: Final = variables
        self.writer: Final = writer
        self._own: Final = own
        self._defaults: Final = defaults
        self.operations: Final[list[str]] = []
        self.agreed: Final[list[str]] = []
        self.conflicts: Final[list[str]] = []

    def emit(self, condition: str, made: str) -> None:
        """Add an operation that applies under a condition."""
        self.operations.append(f"({condition} ? [{made}] : [])")

    def write_object(self, change: ObjectDelta, named: JSON, node: Node) -> None:
        """Write the changes of an object.

        Args:
            change: The changes.
            named: The members of the template that must keep their order; the rest is compared elsewhere.
            node: The place of the object.
        """
        template = named if isinstance(named, dict) else {}
        changes = dict(change.members)
        for name in sorted({*template, *changes}):
            inner = changes.get(name)
            schema = change.schema.fields.get(name, _NO_SCHEMA)
            self._write_member(name, inner, template.get(name), node, schema)

    def _write_member(self, name: str, change: Change | None, named: JSON, node: Node, schema: MergeSchema) -> None:
        if type(change) is Assign:
            self._assign(name, change, node)
        elif type(change) is ObjectDelta:
            self._write_inner(name, change, named, node)
        elif type(change) is ListDelta or _has_order(named, schema):
            self._write_list(name, change if type(change) is ListDelta else None, named, node, schema)
        elif isinstance(named, dict) and _has_lists(named, schema):
            self.write_object(ObjectDelta((), schema), named, self.variables.child(node, name))

    def _write_inner(self, name: str, change: ObjectDelta, named: JSON, node: Node) -> None:
        child = self.variables.child(node, name)
        if not change.removed:
            self.agreed.append(child.exists)
            self.write_object(change, named, child)
            return
        # The policy's own annotations keep the map of annotations.
        keeps = child.tokens == _ANNOTATIONS
        keys = ", ".join(self.writer.text(key) for key, _ in change.members)
        others = self.variables.let("true" if keeps else f"{child.value}.exists(k, !(k in [{keys}]))")
        self.emit(f"{child.exists} && !{others}", patch("remove", child.path))
        for key, _ in change.members:
            self.emit(f"{child.has(key)} && {others}", patch("remove", child.pointer(key)))

    def _assign(self, name: str, change: Assign, node: Node) -> None:
        if change.after is MISSING:
            self.emit(node.has(name), patch("remove", node.pointer(name)))
        elif change.before is MISSING:
            self._add(name, change.after, node, change.schema)
        else:
            self.agreed.append(node.has(name))
            same = self.variables.let(
                replaced(node.optional(name), change.before, change.after, change.schema, self.writer)
            )
            self.emit(
                f"{node.has(name)} && !{same}", patch("replace", node.pointer(name), self.writer.value(change.after))
            )

    def _add(self, name: str, value: JSON, node: Node, schema: MergeSchema) -> None:
        """Write the addition of a member; a value of another client is a conflict."""
        lists, merged = isinstance(value, list) and bool(schema.identity), isinstance(value, dict) and bool(value)
        merged = merged and not schema.retain_keys
        # Go writes null for an absent object that is required.
        there = f"{node.optional(name)}.orValue(dyn(null)) != null" if merged else node.has(name)
        if (
            not lists and (*node.tokens, name) != _ANNOTATIONS
        ):  # Setting the policy's own annotations has added this map.
            self.emit(f"{node.exists} && !({there})", patch("add", node.pointer(name), self.writer.value(value)))
        for other in sorted(EXCLUSIVE.get(name, frozenset()) - {name}):
            self.conflicts.append(node.has(other))
        if isinstance(value, dict) and merged:
            child = self.variables.child(node, name)
            child = child._replace(exists="true" if child.tokens == _ANNOTATIONS else self.variables.let(there))
            for inner, one in value.items():
                self._add(inner, one, child, schema.fields.get(inner, _NO_SCHEMA))
        elif isinstance(value, list) and schema.identity:
            self._add_elements(name, value, node, schema)
        else:
            self._set_own(name, value, node, schema)

    def _set_own(self, name: str, value: JSON, node: Node, schema: MergeSchema) -> None:
        """Replace a default, or a value that an earlier version of the overrider has added."""
        optional, own = node.optional(name), self._own
        differs = self.variables.let(f"{node.has(name)} && !({covers(optional, value, schema, self.writer)})")
        if (default := self._defaults.get((*node.tokens, name))) is not None:
            own = self.variables.let(f"{own} || {optional} == optional.of({self.writer.value(default)})")
        if isinstance(value, list):  # Go writes null for an absent list that is required.
            own = self.variables.let(f"{own} || {optional} == optional.of(null)")
        self.emit(f"{differs} && {own}", patch("replace", node.pointer(name), self.writer.value(value)))
        self.conflicts.append(f"{differs} && !({own})")

    def _add_elements(self, name: str, value: list[JSON], node: Node, schema: MergeSchema) -> None:
        """Write the addition of a list, whose elements join those of other clients."""
        elements = index_elements(value, schema)
        if elements is None:
            raise Unsupported("an element of a list lacks the member that identifies it")
        added = tuple(
            Element(identity, None, at, Assign(MISSING, element, schema))
            for at, (identity, element) in enumerate(elements.items())
        )
        self._write_list(name, ListDelta(added, tuple(elements), 0, reordered=False, schema=schema), None, node, schema)

    def _write_list(self, name: str, change: ListDelta | None, named: JSON, node: Node, schema: MergeSchema) -> None:
        """Write the changes of a list with named elements, after putting those of the template in order."""
        order = _order_of(change, named, schema)
        if any(identity[-1] for identity in order):
            raise Unsupported("a list has two elements with the same name", (*node.tokens, name))
        keys = [self.writer.key(identity[:-1]) for identity in order]
        there, path = f"{node.has(name)}", node.pointer(name)
        if change is not None and any(one.before_at is None for one in change.elements):
            self.emit(f"{node.exists} && !({there})", patch("add", path, "[]"))
        place = _ListWriter(self, name, node, keys, schema)
        place.sort()
        template = index_elements(named, MergeSchema(schema.fields, identity=schema.identity)) or {}
        changes = {one.identity: one for one in change.elements} if change is not None else {}
        for identity, key in zip(order, keys, strict=True):
            one = changes.get(identity)
            if one is None or one.before_at is not None:
                self._write_element(one, template.get(identity), place.element(key), schema)
        if change is not None:
            place.resize(change)

    def _write_element(self, one: Element | None, named: JSON, node: Node, schema: MergeSchema) -> None:
        """Write the changes of an element that the template and the result have."""
        inner = MergeSchema(schema.fields)
        change = one.change if one is not None else ObjectDelta((), inner)
        if type(change) is Assign:
            self.agreed.append(node.exists)
            same = self.variables.let(
                replaced(f"optional.of({node.value})", change.before, change.after, inner, self.writer)
            )
            self.emit(f"{node.exists} && !{same}", patch("replace", node.path, self.writer.value(change.after)))
        elif type(change) is ObjectDelta and (change.members or (isinstance(named, dict) and _has_lists(named, inner))):
            if change.members:
                self.agreed.append(node.exists)
            self.write_object(change._replace(schema=inner), named, node)

    def merge_added(self, value: JSONObject, node: Node, schema: MergeSchema) -> None:
        """Compare an added element with the one that the workload has already."""
        if schema.retain_keys:
            same = covers(f"optional.of({node.value})", value, MergeSchema(schema.fields), self.writer)
            differs = self.variables.let(f"{node.exists} && !({same})")
            self.emit(f"{differs} && {self._own}", patch("replace", node.path, self.writer.value(value)))
            self.conflicts.append(f"{differs} && !{self._own}")
            return
        identifying = {member for member, _ in schema.identity}
        for name, one in value.items():
            if name not in identifying:
                self._compare_added(name, one, node, schema.fields.get(name, _NO_SCHEMA))

    def _compare_added(self, name: str, value: JSON, node: Node, schema: MergeSchema) -> None:
        differs = self.variables.let(f"{node.exists} && !({covers(node.optional(name), value, schema, self.writer)})")
        self.emit(f"{differs} && {self._own}", patch("add", node.pointer(name), self.writer.value(value)))
        self.conflicts.append(f"{differs} && !{self._own}")


class _ListWriter:
    """The place of a list, with its elements by name."""

    def __init__(
        self, operations: OperationsWriter, name: str, node: Node, keys: list[str], schema: MergeSchema
    ) -> None:
        let = operations.variables.let
        self._operations: Final = operations
        self._let: Final = let
        self._schema: Final = schema
        self._path: Final = node.pointer(name)
        self._tokens: Final = (*node.tokens, name, "*")
        self._sorting: tuple[str, str] | None = None
        """The conditions that no element is there twice, and that the order differs from that of the template."""
        key = key_of_element("e", schema)
        stored = let(f"{node.optional(name)}.orValue(dyn([]))")
        if len(keys) == 1:
            self._elements, self._names = stored, let(f"{stored}.map(e, {key})")
            return
        # n: the names; o: those of the template in both orders; s: the elements in the order of the template.
        wanted = f"[{', '.join(keys)}]"
        as_stored = f"[dyn({stored}), dyn(n), dyn(true), dyn(true)]"
        in_order = f"{stored}.map(e, {key} in o[1] ? {stored}[n.indexOf(o[1][o[0].indexOf({key})])] : e)"
        sorted_ = f"[{in_order}].map(s, [dyn(s), dyn(s.map(e, {key})), dyn(false), dyn(o[0].size() == o[1].size())])[0]"
        orders = f"[[dyn(n.filter(k, k in {wanted})), dyn({wanted}.filter(k, k in n))]]"
        made = let(f"[{stored}.map(e, {key})].map(n, {orders}.map(o, o[0] == o[1] ? {as_stored} : {sorted_})[0])[0]")
        self._elements, self._names = f"{made}[0]", f"{made}[1]"
        self._sorting = f"{made}[3]", f"!{made}[2]"

    def sort(self) -> None:
        """Put the elements of the template into its order, as the webhook does."""
        if self._sorting is not None:
            unique, unsorted = self._sorting
            self._operations.agreed.append(unique)
            self._operations.emit(f"{unique} && {unsorted}", patch("replace", self._path, self._elements))

    def _index(self, key: str) -> str:
        return self._let(f"{self._names}.indexOf({key})")

    def element(self, key: str) -> Node:
        """Return the place of an element."""
        index = self._index(key)
        value = self._let(f"{index} >= 0 ? {self._elements}[{index}] : {{}}")
        return Node(value, f"{index} >= 0", f'{self._path} + "/" + string({index})', self._tokens)

    def resize(self, change: ListDelta) -> None:
        """Write the removals, and then the additions."""
        for one in change.elements:
            if one.before_at is None:
                self._merge(one)
        gone = [self._operations.writer.key(one.identity[:-1]) for one in change.elements if one.after_at is None]
        removed = [self._index(key) for key in gone]
        if change.removed:
            others = self._let(f"{self._names}.exists(k, !(k in [{', '.join(gone)}]))")
            self._operations.emit(f"{self._names}.size() > 0 && !{others}", patch("remove", self._path))
        for number, index in enumerate(removed):
            condition = f"{index} >= 0" + (f" && {others}" if change.removed else "")
            at = index if not number else f"({index} - {_count_before(index, removed[:number])})"
            self._operations.emit(condition, patch("remove", f'{self._path} + "/" + string({at})'))
        self._add(change, removed)

    def _add(self, change: ListDelta, removed: list[str]) -> None:
        added = {one.identity: one for one in change.elements if one.before_at is None}
        before: list[str] = []
        inserted: list[str] = []
        for identity in change.order:
            index = self._index(self._operations.writer.key(identity[:-1]))
            one = added.get(identity)
            if one is not None:
                self._insert(one, index, before, inserted, removed)
            before.append(index)

    def _insert(self, one: Element, index: str, before: list[str], inserted: list[str], removed: list[str]) -> None:
        assert type(one.change) is Assign
        value = one.change.after
        anchor = self._let(f"[{', '.join(before)}].max()") if before else "-1"
        at = f"{anchor} + 1"
        if removed:
            at += f" - {_count_before(anchor, removed)}"
        if inserted:
            at += f" + [{', '.join(inserted)}].filter(i, i < 0).size()"
        self._operations.emit(
            f"{index} < 0", patch("add", f'{self._path} + "/" + string({at})', self._operations.writer.value(value))
        )
        inserted.append(index)

    def _merge(self, one: Element) -> None:
        assert type(one.change) is Assign
        node = self.element(self._operations.writer.key(one.identity[:-1]))
        self._operations.merge_added(one.change.after, node, self._schema)


def _count_before(index: str, indexes: list[str]) -> str:
    return f"[{', '.join(indexes)}].filter(i, i >= 0 && i < {index}).size()"


def _order_of(change: ListDelta | None, named: JSON, schema: MergeSchema) -> tuple[Identity, ...]:
    if change is not None:
        return change.order
    elements = index_elements(named, schema)
    if elements is None:
        raise Unsupported("an element of a list lacks the member that identifies it")
    return tuple(elements)


def _has_order(named: JSON, schema: MergeSchema) -> bool:
    """Return whether a list of the template has elements whose order matters, or lists inside its elements."""
    if not isinstance(named, list) or not schema.identity:
        return False
    inner = MergeSchema(schema.fields)
    return len(named) > 1 or any(isinstance(one, dict) and _has_lists(one, inner) for one in named)


def _has_lists(named: JSONObject, schema: MergeSchema) -> bool:
    """Return whether a template has a list inside whose elements have an order."""
    for name, value in named.items():
        inner = schema.fields.get(name, _NO_SCHEMA)
        if _has_order(value, inner) or (isinstance(value, dict) and _has_lists(value, inner)):
            return True
    return False
