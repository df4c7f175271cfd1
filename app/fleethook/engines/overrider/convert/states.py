"""Renders the workload of one node pool step by step in the form of v1beta1, from the bare template to the last entry.

The first state is the workload of the converted subject without tweaks. The last one is the expected result of the
tweaks. Some members always differ between the versions: the labels and annotations by which OpenYurt finds and compares
its workloads, the owner reference, and the node pool, which is a node selector instead of a node affinity expression.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.convert.workload_diff import WrittenPatch, replace_text, without_zeros
from fleethook.engines.overrider.entries.entry_selection import EntrySelection
from fleethook.engines.overrider.entries.entry_steps import RenderError, Step, compile_steps
from fleethook.engines.overrider.plan.plan import patch_pool, place_template
from fleethook.engines.overrider.render.member_differences import merge_repeated
from fleethook.engines.overrider.template.node_affinity import REQUIRED, PoolSettings
from fleethook.engines.overrider.template.template import build_template
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_list, as_object
from fleethook.model.merge_keys import WORKLOAD
from fleethook.model.openyurt import (
    NODE_LABEL_NODEPOOL,
    NODEPOOL_TOKEN,
    POOL_PATCH_ANNOTATION,
    REF_APP_SET_LABEL,
    REF_NODEPOOL_ANNOTATION,
    YURT_APP_SET,
)
from fleethook.workload_schema.go_structs import Kind
from fleethook.workload_schema.value_marks import POOL_MARK


def as_v1beta1(workload: JSONObject, base: JSONObject, *, pool: str, shown: str = "") -> JSONObject:
    """Return a workload of v1alpha1 with the members that v1beta1 sets differently.

    Args:
        workload: The workload at any step of its rendering.
        base: The workload that the converted subject describes without tweaks.
        pool: The node pool's name.
        shown: The text to write in place of that name.
    """
    metadata, base_metadata = workload["metadata"], base["metadata"]
    labels, annotations = as_object(metadata.get("labels")), as_object(metadata.get("annotations"))
    kept = {name: value for name, value in annotations.items() if name != POOL_PATCH_ANNOTATION}
    made = {
        **metadata,
        "labels": {**labels, REF_APP_SET_LABEL: base_metadata["labels"][REF_APP_SET_LABEL]},
        "annotations": {**kept, REF_NODEPOOL_ANNOTATION: shown or pool},
        "ownerReferences": base_metadata["ownerReferences"],
    }
    return _convert_pod_spec({**workload, "metadata": made}, pool, shown or pool)


def _convert_pod_spec(workload: JSONObject, pool: str, shown: str) -> JSONObject:
    spec = as_object(workload.get("spec"))
    template = as_object(spec.get("template"))
    pod_spec = template.get("spec")
    if not isinstance(pod_spec, dict):
        return workload
    return {**workload, "spec": {**spec, "template": {**template, "spec": place_by_selector(pod_spec, pool, shown)}}}


def place_by_selector(pod_spec: JSONObject, pool: str, shown: str) -> JSONObject:
    """Return a pod spec that selects its node pool by ``nodeSelector`` instead of ``affinity``."""
    selector = {**as_object(pod_spec.get("nodeSelector")), NODE_LABEL_NODEPOOL: shown}
    affinity = as_object(pod_spec.get("affinity"))
    node_affinity = as_object(affinity.get("nodeAffinity"))
    required = node_affinity.get(REQUIRED)
    wanted = _remove_pool(required, pool)
    placed = {**pod_spec, "nodeSelector": selector}
    if wanted is required:
        return placed
    node_affinity = _set_member(node_affinity, REQUIRED, wanted)
    affinity = _set_member(affinity, "nodeAffinity", node_affinity)
    return _set_member(placed, "affinity", affinity)


def _remove_pool(required: JSON, pool: str) -> JSON:
    """Return required node affinity without the node pool.

    Terms are alternatives. If a term has no other expression, it allows any node of the pool, and the result is None.
    """
    terms = as_object(required).get("nodeSelectorTerms")
    if not isinstance(terms, list) or not any(_has_pool_expression(term, pool) for term in terms):
        return required
    left = [_remove_pool_from_term(term, pool) for term in terms]
    return {**as_object(required), "nodeSelectorTerms": left} if all(left) else None


def _remove_pool_from_term(term: JSON, pool: str) -> JSON:
    if not _has_pool_expression(term, pool):
        return term
    expressions = [one for one in term["matchExpressions"] if one != _make_expression(pool)]
    return _set_member(term, "matchExpressions", expressions)


def _has_pool_expression(term: JSON, pool: str) -> bool:
    return _make_expression(pool) in (as_object(term).get("matchExpressions") or ())


def _make_expression(pool: str) -> JSONObject:
    return {"key": NODE_LABEL_NODEPOOL, "operator": "In", "values": [pool]}


def _set_member(target: Mapping[str, JSON], name: str, value: JSON) -> JSONObject:
    """Return an object with a member set, or without it if the value is empty."""
    return {**target, name: value} if value else {member: inner for member, inner in target.items() if member != name}


def is_confined(workload: JSONObject, pool: str) -> bool:
    """Return whether a workload of v1alpha1 runs only on the nodes of its pool."""
    pod_spec = _get_pod_spec(workload)
    if as_object(pod_spec.get("nodeSelector")).get(NODE_LABEL_NODEPOOL) == pool:
        return True
    terms = _get_terms(pod_spec)
    return bool(terms) and all(_has_pool_expression(term, pool) for term in terms)


def names_other_pool(workload: JSONObject, pool: str) -> bool:
    """Return whether a workload of v1alpha1 uses the label of node pools to select nodes of other pools."""
    pod_spec = _get_pod_spec(workload)
    if as_object(pod_spec.get("nodeSelector")).get(NODE_LABEL_NODEPOOL, pool) != pool:
        return True
    expressions = [one for term in _get_terms(pod_spec) for one in as_object(term).get("matchExpressions") or ()]
    return any(
        as_object(one).get("key") == NODE_LABEL_NODEPOOL and one != _make_expression(pool) for one in expressions
    )


def _get_pod_spec(workload: JSONObject) -> Mapping[str, JSON]:
    return as_object(as_object(as_object(workload.get("spec")).get("template")).get("spec"))


def _get_terms(pod_spec: Mapping[str, JSON]) -> list[JSON]:
    node_affinity = as_object(as_object(pod_spec.get("affinity")).get("nodeAffinity"))
    return as_list(as_object(node_affinity.get(REQUIRED)).get("nodeSelectorTerms"))


_STEP: Final = re.compile(r"entries\[(\d+)\]\.(items|patches)\[(\d+)\]")


class PoolSource(NamedTuple):
    """One node pool of a subject of v1alpha1."""

    group_kind: GroupKind
    subject: JSONObject
    entries: Sequence[JSON]
    kind: Kind
    pool: str
    node_pool: JSONObject | None
    converted: JSONObject
    """The YurtAppSet v1beta1 of the subject, without tweaks."""
    number: int = 0
    """The position of the pool in the subject."""
    config: JSONObject | None = None
    """The element of the pool in a YurtAppSet's topology."""


class State(NamedTuple):
    """A workload after one step."""

    order: tuple[int, ...]
    """Sorts the steps of all node pools."""
    owner: str
    """The entry of the step, such as ``entries[0]``; ``""`` for the subject itself."""
    field: str
    """Path of the step in the overrider, or in the subject if ``owner`` is empty."""
    workload: JSONObject
    marked: JSONObject
    """The same workload with a mark in place of the name of the node pool."""
    item: JSONObject
    """The item of the step, empty for other steps."""
    written: WrittenPatch | None = None
    """The patch of the step, None for other steps."""
    written_marked: WrittenPatch | None = None


def base_of(source: PoolSource, pool: str) -> JSONObject:
    """Return the workload of the converted subject in ``pool`` without tweaks."""
    settings = PoolSettings(tweaks=())
    return without_zeros(_build_bare(YURT_APP_SET, source.converted, source, pool, settings)[0], source.kind)


def states_of(source: PoolSource, base: JSONObject) -> Iterator[State]:
    """Yield the states after `base_of`; raises SubjectError or RenderError."""
    marks = base_of(source, POOL_MARK)

    def state(workload: JSONObject, marked: JSONObject, order: tuple[int, ...], owner: str, field: str) -> State:
        shown = as_v1beta1(workload, base, pool=source.pool)
        shown_marked = as_v1beta1(marked, marks, pool=source.pool, shown=POOL_MARK)
        stored, stored_marked = (without_zeros(one, source.kind) for one in (shown, shown_marked))
        return State(order, owner, field, stored, stored_marked, {})

    placed, bare = _build_bare(source.group_kind, source.subject, source, source.pool, PoolSettings(source.config))
    field = _get_pool_field(source)
    yield state(placed, placed, (0,), "", field)
    if bare is not placed:
        yield state(bare, bare, (1,), "", f"{field}.patch")
    workload = marked = bare
    numbers = EntrySelection(list(source.entries)).applying(source.pool, source.node_pool)
    steps = (compile_steps(source.entries, pool, applying=numbers) for pool in (source.pool, POOL_MARK))
    for step, marked_step in zip(*steps, strict=True):
        workload, marked = _run_step(step, workload), _run_marked_step(marked_step, marked)
        number, member, position = _parse_field(step)
        order = (2, number, int(member == "patches"), position)
        made = state(workload, marked or workload, order, f"entries[{number}]", step.field)
        written = as_object(source.entries[number])[member][position]
        yield _add_written(made, member, written, source.pool)


def _build_bare(
    group_kind: GroupKind, subject: JSONObject, source: PoolSource, pool: str, settings: PoolSettings
) -> tuple[JSONObject, JSONObject]:
    template = build_template(
        group_kind, subject, kind=source.kind, pool=pool, node_pool=source.node_pool, settings=settings
    )
    placed = place_template(group_kind, subject, template, kind=source.kind, pool=pool)
    return placed, patch_pool(placed, template)


def _get_pool_field(source: PoolSource) -> str:
    if source.group_kind != YURT_APP_SET:
        return "spec.nodepoolSelector"
    return f"spec.topology.pools[{source.number}]"


def _run_step(step: Step, workload: JSONObject) -> JSONObject:
    after: JSONObject = merge_repeated(workload, step.run(workload), WORKLOAD)
    return after


def _run_marked_step(step: Step, marked: JSONObject) -> JSONObject:
    """Return the marked workload after a step, unchanged if the step fails without the name of the pool."""
    try:
        return _run_step(step, marked)
    except RenderError:
        return marked


def _parse_field(step: Step) -> tuple[int, str, int]:
    found = _STEP.fullmatch(step.field)
    assert found is not None
    return int(found[1]), found[2], int(found[3])


def _add_written(state: State, member: str, written: JSON, pool: str) -> State:
    real, marked = (as_object(replace_text(written, NODEPOOL_TOKEN, name)) for name in (pool, POOL_MARK))
    if member == "items":
        return state._replace(item=dict(real))
    return state._replace(written=_read_patch(real), written_marked=_read_patch(marked))


def _read_patch(members: JSON) -> WrittenPatch:
    return WrittenPatch(members["operation"], members["path"], members.get("value"))
