"""Finds APIBindings without a known owner, whose requests are refused."""

from collections.abc import Iterable, Iterator
from typing import Final, cast

from app.dispatch.lint.codes import Issue
from app.dispatch.schema_owner import BINDINGS_BY_RESOURCE, UNBOUND_BINDINGS, Ownership, OwnerStatus, find_owner
from app.model.json import as_object
from app.model.kcp import API_BINDING
from app.store import ObjectKey, Store

_ACTIONS: Final = {
    OwnerStatus.AMBIGUOUS: "",
    OwnerStatus.NAMELESS: ": wait until kcp sets it, or recreate the APIBinding",
    OwnerStatus.UNKNOWN: ": add the objects of that cluster",
    OwnerStatus.DANGLING: ": restore the APIExport, or remove the APIBinding",
}


def binding_findings(store: Store) -> Iterator[tuple[ObjectKey, Issue]]:
    """Yield the issues of the APIBindings of all clusters, with the functions of dispatch."""
    reported = set[tuple[str, str, str]]()
    for key in sorted(store.keys(API_BINDING)):
        binding = as_object(store.get(*key))
        if UNBOUND_BINDINGS.keys(key.cluster, binding):
            phase = as_object(binding.get("status")).get("phase") or "no phase"
            text = f"nothing is bound yet ({phase}): requests for its resources are refused until they are bound"
            yield key, Issue("binding-unbound", text)
        for group, resource in cast("Iterable[tuple[str, str]]", BINDINGS_BY_RESOURCE.keys(key.cluster, binding)):
            bound = (key.cluster, group, resource)
            owner = find_owner(store, cluster=key.cluster, group=group, resource=resource)
            if owner.status in _ACTIONS and (owner.status is not OwnerStatus.AMBIGUOUS or bound not in reported):
                reported.add(bound)
                yield key, Issue(f"binding-{owner.status}", _format_text(owner))


def _format_text(owner: Ownership) -> str:
    trace = "; ".join(step for step in owner.trace if step != owner.problem)
    return f"{owner.problem}{_ACTIONS[owner.status]}{f' ({trace})' if trace else ''}"
