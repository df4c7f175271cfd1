"""Compares a stored workload with the requested one: the drift of a workload, and the changes that a write makes.

An apiserver does not store an object exactly as sent: it adds defaults, drops empty members and unknown fields, and
writes quantities in canonical form. So the comparison is by meaning: quantities by value, list elements by merge key,
and null as an absent member.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.list_elements_and_order import Identity, describe_identity, index_elements
from fleethook.engines.overrider.render.undo_and_annotations import LastRender, read_last_render
from fleethook.engines.overrider.render.workload_render_and_name_conflicts import (
    NOTHING_TO_RENDER,
    Rendering,
    RenderTarget,
    compute_patch,
    render,
)
from fleethook.engines.overrider.subject.workload_owner import Owner, find_owner
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.formats.quantity import Quantity, stored_quantity
from fleethook.model.json import ABSENT, JSON, JSONObject, as_object, list_objects
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from fleethook.patch import apply, format_pointer
from fleethook.workload_schema.defaults import find_default, parse_place

_NO_SCHEMA: Final = MergeSchema()


# Members of type resource.Quantity in k8s.io/api core/v1.
_QUANTITY: Final = re.compile(r"/(resources/(limits|requests)|overhead)/[^/]+$|/(sizeLimit|divisor)$")


class MemberDifference(NamedTuple):
    """One member that the apiserver does not store as requested."""

    pointer: str
    """JSON pointer into the stored workload, or into the requested one if the member is not stored."""
    address: tuple[str, ...]
    """The path with list elements by merge key, so that it stays the same when indexes change."""
    requested: JSON
    """`ABSENT` for a removed member."""
    stored: JSON
    """`ABSENT` for a member that is not stored."""

    @property
    def insignificant(self) -> bool:
        """Whether the difference is a default or an empty value, which an apiserver adds and drops.

        If a removed member is stored, the apiserver defaulted it. It never adds a removed list element as a default.
        """
        if self.requested is ABSENT:
            return not self.address[-1].startswith("[")
        return is_empty(self.requested)


def is_empty(value: JSON) -> bool:
    """Return whether ``value`` is null, false, zero, or has only such members, as Go's ``omitempty`` drops them."""
    if isinstance(value, dict):
        return all(map(is_empty, value.values()))
    if isinstance(value, list):
        return all(map(is_empty, value))
    return not value


def find_differences(
    stored: JSONObject, requested: JSONObject, *, leaves: bool = False, by_text: bool = False
) -> tuple[MemberDifference, ...]:
    """Return the differences between ``stored`` and ``requested``.

    Args:
        stored: The workload as the apiserver returns it.
        requested: The workload as requested.
        leaves: Whether to list each leaf of an object or keyed list that is not stored, and to ignore the order of
            list elements.
        by_text: Whether the texts of quantities are compared in place of their values.
    """
    return tuple(_Comparison(leaves, by_text).objects(stored, requested, _Location((), (), WORKLOAD)))


def fingerprint(differences: Sequence[MemberDifference]) -> str:
    """Return a short text that is equal for equal differences in any order."""
    parts = sorted(
        msgspec.json.encode(
            [difference.address, _wrap_value(difference.requested), _wrap_value(difference.stored)],
            order="deterministic",
        )
        for difference in differences
    )
    return sha256(b"\n".join(parts)).hexdigest()[:16]


def _wrap_value(value: JSON) -> list[JSON]:
    return [] if value is ABSENT else [value]


class _Location(NamedTuple):
    tokens: tuple[str, ...]
    address: tuple[str, ...]
    schema: MergeSchema

    def member(self, name: str) -> "_Location":
        return _Location((*self.tokens, name), (*self.address, name), self.schema.fields.get(name, _NO_SCHEMA))

    def element(self, index: int, identity: Identity = ()) -> "_Location":
        named = describe_identity(identity, self.schema) if identity else f"[{index}]"
        # An element's members are in the fields of its list's schema.
        return _Location((*self.tokens, str(index)), (*self.address, named), MergeSchema(self.schema.fields))

    def difference(self, requested: JSON, stored: JSON) -> MemberDifference:
        return MemberDifference(format_pointer(self.tokens), self.address, requested, stored)


class _Comparison(NamedTuple):
    leaves: bool
    by_text: bool

    def values(self, stored: JSON, requested: JSON, place: _Location) -> Iterator[MemberDifference]:
        if self.leaves and stored is ABSENT:
            stored = _make_empty(requested, place.schema)
        if isinstance(requested, dict) and isinstance(stored, dict):
            yield from self.objects(stored, requested, place)
        elif isinstance(requested, list) and isinstance(stored, list):
            yield from self.lists(stored, requested, place)
        elif not _same_scalar(stored, requested, place.tokens, by_text=self.by_text):
            yield place.difference(requested, stored)

    def objects(self, stored: JSONObject, requested: JSONObject, place: _Location) -> Iterator[MemberDifference]:
        for name, value in requested.items():
            present = stored.get(name, ABSENT)
            # `!=` compares equal branches in C, so only differing objects and lists are compared member by member.
            if present != value and not (present is ABSENT and value is None):
                yield from self.values(present, value, place.member(name))
        for name, present in stored.items():
            if name not in requested and present is not None:
                yield place.member(name).difference(ABSENT, present)

    def lists(self, stored: list[JSON], requested: list[JSON], place: _Location) -> Iterator[MemberDifference]:
        present, wanted = index_elements(stored, place.schema), index_elements(requested, place.schema)
        if present is not None and wanted is not None:
            yield from self.elements(present, wanted, place)
        elif len(stored) == len(requested):
            for index, (before, after) in enumerate(zip(stored, requested, strict=True)):
                if before != after:
                    yield from self.values(before, after, place.element(index))
        else:
            yield place.difference(requested, stored)

    def elements(
        self, stored: dict[Identity, JSONObject], requested: dict[Identity, JSONObject], place: _Location
    ) -> Iterator[MemberDifference]:
        places = {identity: number for number, identity in enumerate(stored)}
        for number, (identity, value) in enumerate(requested.items()):
            present = stored.get(identity, ABSENT)
            if present != value:
                yield from self.values(present, value, place.element(places.get(identity, number), identity))
        for identity, element in stored.items():
            if identity not in requested:
                yield place.element(places[identity], identity).difference(ABSENT, element)
        order, stored_order = [one for one in requested if one in stored], [one for one in stored if one in requested]
        if order != stored_order and not self.leaves:
            yield place.difference(order, stored_order)


def _make_empty(requested: JSON, schema: MergeSchema) -> JSON:
    if isinstance(requested, dict):
        return {}
    return [] if isinstance(requested, list) and schema.identity else ABSENT


def _same_scalar(stored: JSON, requested: JSON, tokens: tuple[str, ...], *, by_text: bool) -> bool:
    if stored == requested or (stored is ABSENT and requested is None):
        return True
    are_scalars = all(isinstance(one, (str, int, float)) and not isinstance(one, bool) for one in (stored, requested))
    if not are_scalars or not _QUANTITY.search("/" + "/".join(tokens)):
        return False
    try:
        if by_text:
            return stored_quantity(str(stored)) == stored_quantity(str(requested))
        return Quantity.parse(stored) == Quantity.parse(requested)
    except ValueError:
        return False


def find_changes(before: JSONObject, after: JSONObject) -> tuple[MemberDifference, ...]:
    """Return the differences that remain when kube-apiserver has stored ``after`` in place of ``before``.

    Defaults and empty values are no differences; the order of list elements is one. The controller of Deployments
    compares quantities by value. That of StatefulSets compares the bytes of the pod template (getPatch).
    """
    compared = (_compare_only(before), _compare_only(after))
    if compared[0] == compared[1]:
        return ()
    by_text = before.get("kind") == "StatefulSet"
    return tuple(
        difference for difference in find_differences(*compared, by_text=by_text) if not _is_default(difference)
    )


_IMAGE_PULL_POLICIES: Final = ("IfNotPresent", "Always")
# Maps and plain structs: an empty one is stored like an absent one.
_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests", "resources"})


def _is_default(difference: MemberDifference) -> bool:
    """Return whether a difference of a workload vanishes when kube-apiserver stores the requested object.

    The object loses a field that kube-apiserver fills in with the stored value, or it has an empty list, map or null in
    place of an absent one.
    """
    requested, stored = difference.requested, difference.stored
    if requested is ABSENT and _has_default(parse_place(difference.pointer), stored):
        return True
    return _is_nothing(requested, difference.pointer) and _is_nothing(stored, difference.pointer)


def _is_nothing(value: Any, pointer: str) -> bool:
    if value is ABSENT or value is None or value == []:
        return True
    return value == {} and pointer.rpartition("/")[2] in _MAPS


def _has_default(tokens: tuple[str, ...], stored: Any) -> bool:
    if tokens[-1] == "imagePullPolicy":
        return stored in _IMAGE_PULL_POLICIES
    if tokens[-1] == "serviceAccount":
        return True  # kube-apiserver copies serviceAccountName into this deprecated field.
    default = find_default(tokens)
    return default is not None and stored == default


def _compare_only(workload: JSONObject) -> JSONObject:
    """Return the members of a workload that writers request."""
    metadata = as_object(workload.get("metadata"))
    named = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    return {"metadata": named, "spec": _drop_empty_terms(as_object(workload.get("spec")))}


_TERMS: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def _drop_empty_terms(spec: JSON) -> JSON:
    """Return a spec without a node affinity that has no condition.

    OpenYurt 1.4 writes such terms and fleethook does not (`place` of pool_template_and_placement).
    """
    template = as_object(spec.get("template"))
    pod_spec = as_object(template.get("spec"))
    part: JSON = pod_spec
    for token in _TERMS:
        part = as_object(part).get(token)
    terms = as_object(part).get("nodeSelectorTerms")
    if not isinstance(terms, list) or any(terms):
        return spec
    kept: JSONObject = _without(pod_spec, _TERMS)
    return {**spec, "template": {**template, "spec": kept}}


def _without(parent: JSON, path: Sequence[str]) -> JSONObject:
    """Return an object without the member at a path, and without the members that this empties."""
    name, *rest = path
    inner = _without(parent[name], rest) if rest else {}
    remaining = {key: value for key, value in parent.items() if key != name}
    return {**remaining, name: inner} if inner else remaining


class Drift(NamedTuple):
    """The differences between a stored workload and its rendered form."""

    differences: tuple[MemberDifference, ...]
    """The members that a render would change."""
    error: str
    """The reason why the workload cannot be rendered, ``""`` if it can be."""
    operations: Sequence[JSONObject] = ()
    """The JSON patch that renders the workload."""
    scale: str = ""
    """The client that has scaled a rendered workload, and the remedy; ``""`` if the replicas do not differ."""

    @property
    def is_in_sync(self) -> bool:
        """Whether the workload needs no write."""
        return not self.differences and not self.error

    @property
    def identity(self) -> str:
        """A text that identifies the drift: equal drifts have equal texts. ``""`` without drift."""
        return self.error or (fingerprint(self.differences) if self.differences else "")

    @property
    def pointers(self) -> tuple[str, ...]:
        """JSON pointers of the differences."""
        return tuple(difference.pointer for difference in self.differences)


NO_DRIFT: Final = Drift((), "")
FORMER_TEMPLATE: Final = Drift((), "keeps its former template, because no controller writes the changed one")


def render_stored(
    workload: JSONObject, target: RenderTarget, *, last_render: LastRender | None, store: StoreView, plans: PlanCache
) -> Rendering:
    """Return the rendering of a stored workload, or of a write to it; arguments as of `render`.

    Nothing is rendered if the owner is gone or invalid, because admission admits the workload unchanged then.

    Raises:
        RenderError: The overrider does not fit the workload.
    """
    try:
        return render(workload, target, last_render=last_render, store=store, plans=plans)
    except SubjectError:
        return NOTHING_TO_RENDER


def detect_drift(workload: JSONObject, *, kind: str, store: StoreView, plans: PlanCache) -> Drift:
    """Return the drift of a stored workload.

    Args:
        workload: The complete workload, as the apiserver returns it.
        kind: Deployment or StatefulSet.
        store: Overriders, subjects and node pools.
        plans: The plans that were compiled from them.
    """
    owner: Owner | None = find_owner(workload["metadata"])
    if owner is None or workload["metadata"].get("deletionTimestamp"):
        return NO_DRIFT
    target = RenderTarget(kind, workload["metadata"].get("namespace") or "", owner, creating=False)
    try:
        rendering = render_stored(workload, target, last_render=read_last_render(workload), store=store, plans=plans)
    except RenderError as error:
        return Drift((), str(error))
    if not rendering.operations:
        return _find_former_template(workload, rendering)
    differences = find_differences(workload, apply(workload, rendering.operations))
    if not differences:
        return _find_former_template(workload, rendering)
    return Drift(differences, "", rendering.operations, _describe_scale(workload, differences, rendering))


def _find_former_template(workload: JSONObject, rendering: Rendering) -> Drift:
    """Return the drift of a workload with all overrides: the reason if its template is not that of its owner."""
    if not rendering.keeps_template or rendering.plan is None:
        return NO_DRIFT
    laid = compute_patch(rendering.plan, workload, last_render=read_last_render(workload), creating=False)
    differences = find_differences(workload, apply(workload, laid))
    return FORMER_TEMPLATE if any(difference.address[0] == "spec" for difference in differences) else NO_DRIFT


def _describe_scale(workload: JSONObject, differences: Sequence[MemberDifference], rendering: Rendering) -> str:
    scale = next((difference for difference in differences if difference.address == ("spec", "replicas")), None)
    last_render, plan = read_last_render(workload), rendering.plan
    if scale is None or last_render is None or plan is None or last_render.digest != plan.digest:
        return ""
    source = plan.values.fill_text(plan.shared.plan.source_of(("spec", "replicas")))
    scaler = _find_scaler(workload)
    return (
        f"{scaler} set {scale.stored} replicas, and YurtAppOverrider {rendering.overrider} sets {scale.requested} in "
        f"{source}: to leave the number to {scaler}, write `leave: [replicas]` there instead"
    )


def _find_scaler(workload: JSONObject) -> str:
    """Return the client that set the replicas last."""
    fields = list_objects(workload["metadata"].get("managedFields"))
    owners = [field for field in fields if "f:replicas" in as_object(as_object(field.get("fieldsV1")).get("f:spec"))]
    last = max(owners, key=lambda one: str(one.get("time")), default={"manager": "another client"})
    return f"{last.get('manager')} ({last['subresource']})" if last.get("subresource") else str(last.get("manager"))
