"""The undo that the first render of a workload records, with the defaults of kube-apiserver."""

from collections.abc import Iterator, Mapping
from typing import Any

from app.model.json import JSON, JSONObject
from app.model.merge_keys import WORKLOAD
from app.overrider.delta import MISSING, Assign, Change, ListDelta, ObjectDelta, apply_delta
from app.overrider.plan import Plan
from app.overrider.policies.cel import Unsupported
from app.overrider.render import render_with
from app.overrider.rollout.defaults import find_default
from app.overrider.undo import UNDO_ANNOTATION

Tokens = tuple[str, ...]


def find_defaults(delta: ObjectDelta) -> Mapping[Tokens, JSON]:
    """Return the values that kube-apiserver fills in at the places where an overrider adds members.

    Raises:
        Unsupported: The default of an added member depends on the workload.
    """
    found: dict[Tokens, JSON] = {}
    for tokens in _added(delta, ()):
        if tokens[-1] in ("imagePullPolicy", "pullPolicy", "serviceAccount"):
            raise Unsupported("kube-apiserver derives the default of this member from another one", tokens)
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
    elif type(change) is Assign and isinstance(change.before, dict) and isinstance(change.after, dict):
        # A choice that is set as a whole; a volume is an emptyDir only if it has no source.
        has_source = tokens[-2:-1] == ("volumes",) and bool(change.before.keys() - {"name"})
        yield from ((*tokens, name) for name in change.after if name not in change.before and not has_source)
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
    if not defaults:
        return plan.undo_text
    before: JSONObject = apply_delta(plan.base, _fill(delta, defaults, ()))
    rendered = render_with(plan, before, memory=None, creating=False)
    undo: str = rendered["metadata"]["annotations"].get(UNDO_ANNOTATION, "")
    return undo


def _fill(change: Any, defaults: Mapping[Tokens, JSON], tokens: Tokens) -> Any:
    """Return the part of a difference that adds members with a default, with the default as their value."""
    if type(change) is ObjectDelta:
        inner = ((name, _fill(one, defaults, (*tokens, name))) for name, one in change.members)
        return change._replace(members=tuple((name, one) for name, one in inner if one is not None), removed=False)
    if type(change) is ListDelta:
        filled = (
            (one, _fill(one.change, defaults, (*tokens, "*"))) for one in change.elements if one.before_at is not None
        )
        made = tuple(one._replace(change=inner) for one, inner in filled if inner is not None)
        return ListDelta(
            made, tuple(one.identity for one in made), change.length, reordered=False, schema=change.schema
        )
    if isinstance(change.before, dict) and isinstance(change.after, dict):
        added = {name: defaults[*tokens, name] for name in change.after if (*tokens, name) in defaults}
        missing = {name: value for name, value in added.items() if name not in change.before}
        return change._replace(after={**change.before, **missing}) if missing else None
    return Assign(MISSING, defaults[tokens], WORKLOAD) if change.before is MISSING and tokens in defaults else None
