"""Compiles a plan that pools share to the variables and the expression of a policy, with the undo that it records."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from fleethook.engines.overrider.plan.plan import Plan
from fleethook.engines.overrider.policies.cel_expressions import (
    DIGEST_COLUMN,
    ROW,
    Node,
    Unsupported,
    Variables,
    Writer,
    patch,
)
from fleethook.engines.overrider.policies.expectation import expect, write_conditions
from fleethook.engines.overrider.policies.operations import OperationsWriter
from fleethook.engines.overrider.render.delta import MISSING, Assign, Change, ListDelta, ObjectDelta, apply_delta
from fleethook.engines.overrider.render.render import render_with, template_replicas
from fleethook.engines.overrider.render.undo import UNDO_ANNOTATION
from fleethook.engines.overrider.template.node_affinity import CREATE_ONLY
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.merge_keys import WORKLOAD
from fleethook.model.openyurt import PARTIAL_SUFFIX, RENDERED_ANNOTATION
from fleethook.workload_schema.normalize import find_default

Tokens = tuple[str, ...]


def find_defaults(plan: Plan, delta: ObjectDelta) -> Mapping[Tokens, JSON]:
    """Return the values that kube-apiserver fills in at the places where an overrider adds members.

    Args:
        plan: The plan of the workload.
        delta: The changes of the overrider.

    Raises:
        Unsupported: The default of an added member depends on the workload.
    """
    found: dict[Tokens, JSON] = {}
    chosen = as_object(plan.base["spec"].get("updateStrategy")).get("type")
    for tokens in _added(delta, ()):
        if tokens[-1] in ("imagePullPolicy", "pullPolicy", "serviceAccount"):
            raise Unsupported("kube-apiserver derives the default of this member from another one", tokens)
        if tokens == ("spec", "updateStrategy", "rollingUpdate") and chosen:
            continue  # It fills in the members of an update strategy only together with its type.
        if (default := find_default(tokens)) is not None:
            found.update(_members(tokens, default))
    return found


def _members(tokens: Tokens, value: JSON) -> Iterator[tuple[Tokens, JSON]]:
    """Yield a value, and those of all members inside it."""
    yield tokens, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _members((*tokens, name), inner)


def _added(change: Change, tokens: Tokens) -> Iterator[Tokens]:
    if type(change) is Assign and change.before is MISSING:
        yield tokens
    elif type(change) is ObjectDelta:
        for name, inner in change.members:
            yield from _added(inner, (*tokens, name))
    elif type(change) is ListDelta:
        for one in change.elements:
            if one.before_at is not None:
                yield from _added(one.change, (*tokens, "*"))


def undo_of_first_render(plan: Plan, delta: ObjectDelta, defaults: Mapping[Tokens, JSON]) -> str:
    """Return ``fleethook.io/undo`` as the webhook sets it on a workload that was never rendered.

    Args:
        plan: The plan of the workload.
        delta: The changes of the overrider.
        defaults: The result of `find_defaults`.
    """
    filled = _fill(delta, defaults, ())
    if filled is None:
        return plan.undo_text
    rendered = render_with(plan, apply_delta(plan.base, filled), memory=None, creating=False)
    undo: str = rendered["metadata"]["annotations"].get(UNDO_ANNOTATION, "")
    return undo


def _fill(change: Any, defaults: Mapping[Tokens, JSON], tokens: Tokens) -> Any:
    """Return a difference of the members that kube-apiserver fills in; None if there are none."""
    if type(change) is ObjectDelta:
        inner = ((name, _fill(one, defaults, (*tokens, name))) for name, one in change.members)
        members = tuple((name, one) for name, one in inner if one is not None)
        return change._replace(members=members, removed=False) if members else None
    if type(change) is ListDelta:
        kept = (one for one in change.elements if one.before_at is not None)
        filled = ((one, _fill(one.change, defaults, (*tokens, "*"))) for one in kept)
        made = tuple(one._replace(change=inner) for one, inner in filled if inner is not None)
        order = tuple(one.identity for one in made)
        return ListDelta(made, order, change.length, reordered=False, schema=change.schema) if made else None
    if change.before is MISSING:
        return Assign(MISSING, defaults[tokens], WORKLOAD) if tokens in defaults else None
    if isinstance(change.before, dict) and isinstance(change.after, dict):
        completed = _complete_choice(change.before, tokens)
        return change._replace(after=completed) if completed != change.before else None
    return None


def _complete_choice(value: JSONObject, tokens: Tokens) -> JSONObject:
    """Return a strategy or a volume, which an override replaces as a whole, with the defaults of kube-apiserver."""
    if tokens[-2:] == ("volumes", "*") and not value.keys() - {"name"}:
        return {**value, "emptyDir": {}}
    whole = find_default(tokens)
    if tokens[:1] == ("spec",) and len(tokens) == 2 and isinstance(whole, dict):
        chosen = value.get("type")
        if not chosen or (chosen == whole["type"] and tokens[-1] == "strategy"):
            rolling = {**whole["rollingUpdate"], **as_object(value.get("rollingUpdate"))}
            return {**value, "type": whole["type"], "rollingUpdate": rolling}
    return value


OLD: Final = "variables.old"
"""The annotations of the stored object; empty if the request creates the object."""
OLD_EXPRESSION: Final = 'request.operation == "UPDATE" ? oldObject.metadata.?annotations.orValue(dyn({})) : {}'
_DIGEST: Final = f"{ROW}[{DIGEST_COLUMN}]"


class Form(NamedTuple):
    """The part of a policy for the pools of one shared plan."""

    variables: list[dict[str, str]]
    expression: str
    """A list of JSON patch operations, as maps."""
    reads: frozenset[tuple[str, str]]
    """The members of the workload that decide on the operations, such as ``spec``, ``template``.

    Labels, annotations and owner references are not among them: they always decide.
    """


def compile_form(plan: Plan, *, number: int, texts: int) -> Form:
    """Return the form of a plan.

    Args:
        plan: A shared plan, with marks for the values of pools.
        number: Its number in the policy.
        texts: The number of texts that the entries of a pool set.

    Raises:
        Unsupported: No policy can express a change.
    """
    writer, variables = Writer(texts), Variables(f"f{number}v")
    delta, replicas = _split_replicas(plan)
    defaults = find_defaults(plan, delta)
    undo = writer.text(undo_of_first_render(plan, delta, defaults))
    memory = _Memory(variables, undo)
    made = OperationsWriter(variables, writer, own=memory.own, defaults=defaults)
    made.write_object(delta._replace(schema=WORKLOAD), expect(plan, plan.update), Node("object", "true", '""'))
    made.agreed.extend(write_conditions(plan, delta=plan.update.delta, writer=writer))
    operations = [*memory.operations(made.agreed, made.conflicts), *made.operations]
    if replicas is not MISSING:
        value = writer.value(replicas)
        operations.append(
            f"(object.spec.?replicas == optional.of({value}) ? [] : "
            f"[{patch('add', chr(34) + '/spec/replicas' + chr(34), value)}])"
        )
    if plan.leaves_replicas:
        operations.append(_leave_replicas(plan, writer))
    expressions = variables.close(variables.join(operations, "+", empty="[]"))
    reads = {*_list_members(plan), *([("spec", "replicas")] if plan.leaves_replicas else [])}
    return Form(*expressions, reads=frozenset(reads))


def _leave_replicas(plan: Plan, writer: Writer) -> str:
    """Return the operations that set the replicas of a new workload, and keep those of an existing one.

    `fleethook.engines.overrider.render.render.find_kept_replicas` has the rule.
    """
    requested, stored, path = "object.spec.?replicas", "oldObject.spec.?replicas", _quoted("/spec/replicas")
    created = "[]"
    if "replicas" in plan.rendered["spec"]:
        value = writer.value(plan.rendered["spec"]["replicas"])
        created = f"{requested} == optional.of({value}) ? [] : [{patch('add', path, value)}]"
    numbers = [f"{requested} == optional.of({writer.value(one)})" for one in template_replicas(plan)]
    is_reset = f"{stored}.hasValue() && {stored} != {requested} && ({' || '.join(numbers)})"
    kept = f"{is_reset} ? [{patch('add', path, 'oldObject.spec.replicas')}] : []"
    return f'(request.operation == "CREATE" ? ({created}) : ({kept}))'


def _list_members(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the members of members of an updated workload that the template has, or that a patch changes."""
    update = plan.update
    for named in (update.named, expect(plan, update)):
        for name, value in named.items():
            yield from ((name, inner) for inner in as_object(value))
    for delta in (update.pool_delta, update.delta):
        for name, change in delta.members:
            yield from ((name, inner) for inner, _ in change.members) if type(change) is ObjectDelta else ()


def _split_replicas(plan: Plan) -> tuple[ObjectDelta, object]:
    """Return the changes without the number of replicas, and that number, MISSING if no entry sets it."""
    delta = plan.update.delta
    spec = dict(delta.members).get("spec")
    created = dict(plan.create.delta.members).get("spec")
    if type(created) is ObjectDelta:
        for name, change in created.members:
            if name in CREATE_ONLY and (name != "replicas" or type(change) is not Assign or change.after is MISSING):
                raise Unsupported("only the creation of a workload can change this member", ("spec", name))
    if type(spec) is not ObjectDelta or "replicas" not in dict(spec.members):
        return delta, MISSING
    change = dict(spec.members)["replicas"]
    assert type(change) is Assign
    kept = spec._replace(members=tuple(one for one in spec.members if one[0] != "replicas"))
    members = ((name, kept if name == "spec" else one) for name, one in delta.members)
    return delta._replace(members=tuple((name, one) for name, one in members if one is not kept or kept.members)), (
        change.after
    )


class _Memory:
    """The annotations of the last render."""

    def __init__(self, variables: Variables, undo: str) -> None:
        let = variables.let
        self._variables: Final = variables
        self._undo: Final = let(undo)
        self._old_undo: Final = let(f'{OLD}[?"{UNDO_ANNOTATION}"].orValue("")')
        self._old_digest: Final = let(f'{OLD}[?"{RENDERED_ANNOTATION}"].orValue("")')
        self.own: Final = let(
            f'{self._old_digest} != "" && {self._old_digest} != {_DIGEST} && {self._old_undo} == {self._undo}'
        )
        """The condition that an earlier version of the overrider has set the added values."""

    def operations(self, agreed: list[str], conflicts: list[str]) -> list[str]:
        """Return the operations that set the annotations; they come first, because conditions read the object."""
        let = self._variables.let
        conflict = let(self._join(conflicts, "||", empty="false"))
        agrees = self._join(agreed, "&&", empty="true")
        done = let(f'{_DIGEST} + (({agrees}) && !{conflict} ? "" : "{PARTIAL_SUFFIX}")')
        # Only the webhook can merge an undo with other steps, so a policy keeps it.
        clean = let(f'!{conflict} && ({self._old_undo} == "" || {self._old_undo} == {self._undo})')
        digest = let(f"{clean} || {self._old_digest} == {_DIGEST} ? {done} : {self._old_digest}")
        undo = let(f"{clean} ? {self._undo} : {self._old_undo}")
        present = let("object.metadata.?annotations.orValue(dyn({}))")
        path, value = _quoted("/metadata/annotations"), "{}"
        empty = f'("annotations" in object.metadata ? [] : [{patch("add", path, value)}])'
        return [empty, _set(RENDERED_ANNOTATION, digest, present), _set(UNDO_ANNOTATION, undo, present)]

    def _join(self, conditions: list[str], operator: str, *, empty: str) -> str:
        return self._variables.join([f"({one})" for one in conditions], operator, empty=empty)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _set(name: str, value: str, present: str) -> str:
    """Return the operations that set an annotation, or remove it if the value is empty."""
    path = _quoted("/metadata/annotations/" + name.replace("/", "~1"))
    known = f'{present}[?"{name}"]'
    return (
        f'({known}.orValue("") == {value} ? [] : {value} == "" ? [{patch("remove", path)}] : '
        f"[{patch('add', path, value)}])"
    )
