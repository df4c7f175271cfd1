"""The undo that the first render of a workload records, with the defaults of kube-apiserver."""

from collections.abc import Iterator, Mapping
from typing import Any

from fleethook.engines.overrider.plan.plan import Plan
from fleethook.engines.overrider.policies.cel import Unsupported
from fleethook.engines.overrider.render.delta import MISSING, Assign, Change, ListDelta, ObjectDelta, apply_delta
from fleethook.engines.overrider.render.render import render_with
from fleethook.engines.overrider.render.undo import UNDO_ANNOTATION
from fleethook.engines.overrider.rollout.defaults import find_default
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.merge_keys import WORKLOAD

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
