"""The plan that renders the workload of one pool, and the digest of its result.

Only a plan runs the steps of an overrider, on the workload that the bare template describes. Admission, preview,
validation, digest and undo all use the result, so they all see the same order of elements.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from fleethook.engines.overrider.entries.steps_and_limits import (
    REPLICAS,
    Remark,
    Step,
    StepChange,
    run_traced,
    warn_about_unknown_containers,
)
from fleethook.engines.overrider.render.overlay_and_defaults import overlay
from fleethook.engines.overrider.render.template_delta import (
    Assign,
    Change,
    Leaf,
    ObjectDelta,
    Token,
    delta_of,
    leaves,
    without_removed,
)
from fleethook.engines.overrider.render.undo_and_annotations import as_annotation, undo_of
from fleethook.engines.overrider.rules.rendered_schema_check import check_rendered
from fleethook.engines.overrider.subject.subject_and_pools import is_v1beta1
from fleethook.engines.overrider.template.pool_template_and_placement import (
    CREATE_ONLY,
    REQUIRED,
    PoolSettings,
    PoolTemplate,
    apply_pool_patch,
    place,
)
from fleethook.engines.overrider.template.template_builder import build_template, seed, without_owner_marks
from fleethook.model.gvk import GroupKind
from fleethook.model.json import ABSENT, JSONObject
from fleethook.model.merge_keys import WORKLOAD
from fleethook.workload_schema import DecodedParts
from fleethook.workload_schema.go_structs import Kind

# Part of every hash, so that a change of the rendering rules changes the hashes, too.
_RULES_VERSION: Final = 2


_FORMAT: Final = "2-"
"""The prefix of the hashes: the version of the undo's format."""


class Variant(NamedTuple):
    """The changes to a workload that is created, or to one that is updated."""

    template_fields: JSONObject
    """The members that the template names."""
    pool_delta: ObjectDelta
    """The changes that the pool's own patch makes to ``template_fields``."""
    bare: JSONObject
    """The workload without overrides: that of the template, with the pool's settings and patch."""
    rendered: JSONObject
    """``bare`` with the overrider's entries applied."""
    delta: ObjectDelta
    """The changes from ``bare`` to ``rendered``."""
    places: bool
    """Whether the pool's node affinity is added to existing terms; False if the overrider sets the terms."""
    removes: bool
    """Whether the overrider removes members, for which kube-apiserver may fill in defaults."""


class Plan(msgspec.Struct, frozen=True):
    """The plan of one pool's workload of one subject."""

    template: PoolTemplate
    of_v1beta1: bool
    """Whether the subject is a YurtAppSet of v1beta1."""
    steps: tuple[Step, ...]
    """Empty if no entry applies to the pool."""
    create: Variant
    update: Variant
    """Without the fields of `CREATE_ONLY`."""
    digest: str
    """Hash over the rendered workload, stored on the workload as ``fleethook.io/rendered``.

    Two overriders with the same result have the same hash. A workload with another hash must be rendered again.
    """
    undo: JSONObject
    """Removes the additions of the entries from a workload on which no other writer had set those members."""
    undo_text: str
    """``undo`` as text, stored as ``fleethook.io/undo``."""
    sources: tuple[StepChange, ...]
    """The differences with the steps that made them, in order."""
    warnings: tuple[str, ...]
    remarks: tuple[Remark, ...]
    """Remarks about steps, for the author of the overrider."""
    leaves_replicas: bool = False
    """Whether existing workloads keep their replicas, which another owner sets."""

    def source_of(self, tokens: tuple[Token, ...]) -> str:
        """Return the path of the step that set a value last, ``""`` if none did."""
        return next((source.field for source in reversed(self.sources) if source.made(tokens)), "")

    def list_changes(self) -> Iterator[Leaf]:
        """Yield the changes to a new workload, without the alias of a service account: kube-apiserver sets it later."""
        yield from (leaf for leaf in leaves(self.create.delta) if leaf.tokens != _ALIAS or not self._sets_alias)

    @property
    def template_replicas(self) -> int | None:
        """The replica count of the template, None if it is unknown."""
        replicas: int | None = self.create.bare["spec"].get("replicas", self.template.default_replicas)
        return replicas

    @property
    def new_workload(self) -> JSONObject:
        """The rendered workload without this alias."""
        rendered = self.create.rendered
        template: JSONObject = rendered["spec"]["template"]
        if not self._sets_alias or _ALIAS[-1] not in template["spec"]:
            return rendered
        pod = {member: value for member, value in template["spec"].items() if member != _ALIAS[-1]}
        return {**rendered, "spec": {**rendered["spec"], "template": {**template, "spec": pod}}}

    @property
    def _sets_alias(self) -> bool:
        return any(source.tokens == _ACCOUNT for source in self.sources)


class BarePlan(NamedTuple):
    """The part of a plan that does not depend on entries."""

    template: PoolTemplate
    written: JSONObject
    """The workload without overrides, with values as the user wrote them."""
    parts: DecodedParts
    """``written`` in the form that kube-apiserver stores."""
    restored_fields: JSONObject
    """The members that a workload gets back when the template is laid over it."""
    create: "_BareVariant"
    update: "_BareVariant"


def compile_plan(steps: tuple[Step, ...], subject: JSONObject, *, bare: BarePlan, kind: str, pool: str) -> Plan:
    """Return the plan of a bare plan and the steps of the entries that apply to its pool.

    Args:
        steps: The steps.
        subject: The subject as stored.
        bare: The plan without entries.
        kind: Deployment or StatefulSet.
        pool: The pool's name.

    Raises:
        RenderError: An entry does not fit the template, or is invalid.
    """
    traced = run_traced(bare.written, steps)
    rendered, sources = traced.rendered, traced.sources
    created = bare.parts.decode(rendered, kind_of(rendered))
    unknown = check_rendered(traced, steps, stored=created) if steps else ()
    counting = next((step for step in reversed(steps) if step.path == REPLICAS), None)
    claims = counting is not None and not counting.leaves
    bare_created, bare_updated = bare.create.bare, bare.update.bare
    if accounts := [source for source in sources if source.tokens == _ACCOUNT]:
        sources += [source._replace(tokens=_ALIAS) for source in accounts]
        bare_created, bare_updated, created = map(_set_alias, (bare_created, bare_updated, created))
    updated = on_update(created)
    if claims and "replicas" in rendered["spec"]:
        updated = {**updated, "spec": {**updated["spec"], "replicas": rendered["spec"]["replicas"]}}
    restored = list_template_fields(bare_updated) if accounts else bare.restored_fields
    undo = undo_of(bare_updated, updated, template_fields=restored, schema=WORKLOAD, marks=True)
    undo_text = as_annotation(undo)
    return Plan(
        template=bare.template,
        of_v1beta1=is_v1beta1(subject),
        steps=steps,
        create=_compile_variant(bare.create, bare_created, created),
        update=_compile_variant(bare.update, bare_updated, updated),
        digest=hash_text(digest_text(kind, pool, created, undo_text, tweaks=bare.template.tweaks)) if steps else "",
        undo=undo,
        undo_text=undo_text,
        sources=tuple(sources),
        warnings=(*warn_about_unknown_containers(bare.written, steps), *unknown),
        remarks=tuple(traced.remarks),
        leaves_replicas=counting is not None and counting.leaves,
    )


_ACCOUNT: Final = ("spec", "template", "spec", "serviceAccountName")
_ALIAS: Final = (*_ACCOUNT[:-1], "serviceAccount")


def _set_alias(workload: JSONObject) -> JSONObject:
    """Return a workload with the alias of its service account.

    kube-apiserver copies ``serviceAccountName`` to ``serviceAccount``, and reads the alias where the name is absent.
    """
    template = workload["spec"]["template"]
    pods = {member: value for member, value in template["spec"].items() if member != "serviceAccount"}
    if name := pods.get("serviceAccountName"):
        pods["serviceAccount"] = name
    return {**workload, "spec": {**workload["spec"], "template": {**template, "spec": pods}}}


def compile_bare(
    group_kind: GroupKind,
    subject: JSONObject,
    *,
    kind: str,
    pool: str,
    node_pool: JSONObject | None,
    settings: PoolSettings,
) -> BarePlan:
    """Return the part of a plan that does not depend on entries; arguments and SubjectError as in `build_template`."""
    template = build_template(group_kind, subject, kind=kind, pool=pool, node_pool=node_pool, settings=settings)
    placed = _place_template(group_kind, subject, template, kind=kind, pool=pool)
    written = apply_pool_patch(placed, template)
    # Compare documents in stored form: kube-apiserver drops zero values and rewrites quantities, and neither is a
    # difference to a workload.
    parts = DecodedParts(written, kind_of(written))
    stored, fields = (parts.decode(one, kind_of(written)) for one in (placed, {"kind": kind, **template.fields}))
    updated = on_update(parts.document)
    left = without_owner_marks(fields) if is_v1beta1(subject) else fields
    return BarePlan(
        template=template,
        written=written,
        parts=parts,
        restored_fields=list_template_fields(updated),
        create=_compile_bare_variant(fields, stored, parts.document),
        update=_compile_bare_variant(on_update(left), on_update(stored), updated),
    )


class _BareVariant(NamedTuple):
    template_fields: JSONObject
    pool_delta: ObjectDelta
    bare: JSONObject


def _compile_bare_variant(fields: JSONObject, placed: JSONObject, bare: JSONObject) -> _BareVariant:
    pool_delta = delta_of(placed, bare, WORKLOAD)
    return _BareVariant(without_removed(fields, pool_delta), pool_delta, bare)


def _compile_variant(of: _BareVariant, bare: JSONObject, rendered: JSONObject) -> Variant:
    delta = delta_of(bare, rendered, WORKLOAD)
    kept: JSONObject = without_removed(of.template_fields, delta)
    changes = list(leaves(delta))
    places = not any(_sets_terms(leaf.tokens) for leaf in changes)
    removes = any(leaf.after is ABSENT or (type(leaf.before) is type(leaf.after) is dict) for leaf in changes)
    return Variant(kept, of.pool_delta, bare, rendered, delta, places, removes)


_TERMS: Final = (*("spec", "template", "spec", "affinity", "nodeAffinity"), REQUIRED, "nodeSelectorTerms")


def _sets_terms(tokens: tuple[Token, ...]) -> bool:
    shared = min(len(tokens), len(_TERMS))
    return tokens[:shared] == _TERMS[:shared]


def _place_template(
    group_kind: GroupKind, subject: JSONObject, template: PoolTemplate, *, kind: str, pool: str
) -> JSONObject:
    """Return the workload that the template and the pool's placement describe, without the pool's own patch."""
    seeded = seed(group_kind, subject, kind=kind, pool=pool)
    return place(overlay(seeded, template.fields, WORKLOAD), template)


def kind_of(workload: JSONObject) -> Kind:
    """Return the kind of a workload."""
    return "StatefulSet" if workload["kind"] == "StatefulSet" else "Deployment"


def list_template_fields(bare: JSONObject) -> JSONObject:
    """Return a workload without the required node affinity, to which placement only adds.

    Laying the template over a workload restores the other members.
    """
    change: Change = Assign(None, ABSENT, WORKLOAD)
    for name in (REQUIRED, "nodeAffinity", "affinity", "spec", "template", "spec"):
        change = ObjectDelta(((name, change),), WORKLOAD)
    kept: JSONObject = without_removed(bare, change)
    return kept


def on_update(workload: JSONObject) -> JSONObject:
    """Return ``workload`` without the fields of `CREATE_ONLY`."""
    spec = {name: value for name, value in workload["spec"].items() if name not in CREATE_ONLY}
    return {**workload, "spec": spec}


def digest_text(kind: str, pool: str, rendered: JSONObject, undo_text: str, *, tweaks: str) -> bytes:
    """Return the input of the hash of a plan."""
    parts = [_RULES_VERSION, kind, pool, rendered, undo_text, *([tweaks] if tweaks else [])]
    return msgspec.json.encode(parts, order="deterministic")


def hash_text(text: bytes) -> str:
    """Return a short hash of a text."""
    return _FORMAT + sha256(text).hexdigest()[:16]
