"""The members that a workload must have so that a policy's result equals the webhook's."""

from collections.abc import Iterator
from typing import Final

from fleethook.engines.overrider.plan.plan import Plan, Variant
from fleethook.engines.overrider.policies.cel import Unsupported, Writer, find_member
from fleethook.engines.overrider.policies.covering import list_conditions
from fleethook.engines.overrider.render.delta import MISSING, Assign, Change, ListDelta, ObjectDelta, apply_delta
from fleethook.engines.overrider.render.keyed_elements import index_elements
from fleethook.engines.overrider.template.pool_template import PoolTemplate
from fleethook.engines.overrider.template.template import REQUIRED
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.merge_keys import WORKLOAD, MergeSchema

_NO_SCHEMA: Final = MergeSchema()
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

    The webhook puts the elements in order before it removes some, so the places of other elements depend on these.
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
