"""Rules for a YurtAppSet or YurtAppDaemon alone: its members that rendering reads, and the workloads that it describes.

OpenYurt validates its own objects at admission. The command line applies these rules to manifests.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from fleethook.engines.overrider.entries.patch_paths import MAX_TEMPLATE_VALUES
from fleethook.engines.overrider.plan.plan import BarePlan, compile_bare, kind_of
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.value_shapes import (
    METADATA,
    find_unknown_fields,
    mistyped,
    quote_advice,
    replicas_problem,
    type_name,
)
from fleethook.engines.overrider.subject.subject_members import (
    TEMPLATES,
    is_v1beta1,
    templates_of,
    templates_path,
    tweaks_of,
    workload_kinds,
)
from fleethook.engines.overrider.template.node_affinity import PoolSettings, SubjectError, members_of
from fleethook.engines.overrider.template.template import apply_tweaks
from fleethook.model.formats.labels import validate_selector
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, count_values, enumerate_objects
from fleethook.model.openyurt import TWEAK_POOL_TOKEN, YURT_APP_SET
from fleethook.workload_schema import Finding as WorkloadFinding
from fleethook.workload_schema import check_decoded, check_workload, normalize_workload
from fleethook.workload_schema.go_structs import Kind

_OBJECT: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_APP_SET: Final = ("selector", "workloadTemplate", "topology", "revisionHistoryLimit")
_APP_DAEMON: Final = ("selector", "workloadTemplate", "nodepoolSelector", "revisionHistoryLimit")
_APP_SET_V1BETA1: Final = ("workload", "nodepoolSelector", "pools", "revisionHistoryLimit")
_WORKLOAD: Final = ("workloadTemplate", "workloadTweaks")
_TWEAK: Final = ("nodepoolSelector", "pools", "tweaks")
_TWEAKS: Final = ("replicas", "containerImages", "patches")
_TEMPLATES: Final = ("deploymentTemplate", "statefulSetTemplate")
_POOL: Final = ("name", "nodeSelectorTerm", "tolerations", "replicas", "patch")


def check_subject(group_kind: GroupKind, subject: JSONObject) -> Iterator[Finding]:
    """Yield the mistakes in a subject, with field paths.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: An object with metadata.
    """
    yield from find_unknown_fields(subject, _OBJECT, field="", owner=f"a {group_kind.kind}")
    yield from find_unknown_fields(subject["metadata"], METADATA, field="metadata", owner="metadata")
    spec = subject.get("spec")
    if not isinstance(spec, dict):
        yield Finding("required", "spec", "is required")
        return
    if is_v1beta1(subject):
        yield from _check_app_set_v1beta1(spec)
        return
    app_set = group_kind == YURT_APP_SET
    yield from find_unknown_fields(spec, _APP_SET if app_set else _APP_DAEMON, field="spec", owner="spec")
    yield from _check_template(spec.get("workloadTemplate"), "spec.workloadTemplate")
    if app_set:
        yield from _check_topology(as_object(spec.get("topology")))
    else:
        yield from _check_selection(spec, "spec")


def _check_app_set_v1beta1(spec: Mapping[str, JSON]) -> Iterator[Finding]:
    yield from find_unknown_fields(spec, _APP_SET_V1BETA1, field="spec", owner="spec")
    workload = spec.get("workload")
    if not isinstance(workload, dict):
        yield Finding("required", "spec.workload", "is required, with workloadTemplate")
        return
    yield from find_unknown_fields(workload, _WORKLOAD, field="spec.workload", owner="workload")
    yield from _check_template(workload.get("workloadTemplate"), "spec.workload.workloadTemplate")
    yield from _check_selection(spec, "spec")
    if not spec.get("pools") and not isinstance(spec.get("nodepoolSelector"), dict):
        yield Finding("unused-entry", "spec", "selects no node pool: it has neither pools nor nodepoolSelector")
    tweaks = workload.get("workloadTweaks")
    if tweaks is not None and not isinstance(tweaks, list):
        yield mistyped("spec.workload.workloadTweaks", "a list", tweaks)
        return
    for number, tweak in enumerate(tweaks or ()):
        yield from _check_tweak(tweak, f"spec.workload.workloadTweaks[{number}]")


def _check_selection(selection: Mapping[str, JSON], field: str) -> Iterator[Finding]:
    pools, selector = selection.get("pools"), selection.get("nodepoolSelector")
    if pools is not None and not (isinstance(pools, list) and all(isinstance(pool, str) for pool in pools)):
        yield mistyped(f"{field}.pools", "a list of names", pools)
    if selector is None:
        return
    if not isinstance(selector, dict):
        yield mistyped(f"{field}.nodepoolSelector", "an object", selector)
        return
    for pointer, problem in validate_selector(selector, ""):
        path = pointer.replace("/", ".")
        yield Finding("invalid", f"{field}.nodepoolSelector{path}", problem)


def _check_tweak(tweak: JSON, field: str) -> Iterator[Finding]:
    if not isinstance(tweak, dict):
        yield mistyped(field, "an object", tweak)
        return
    yield from find_unknown_fields(tweak, _TWEAK, field=field, owner="a tweak")
    yield from _check_selection(tweak, field)
    if not tweak.get("pools") and not isinstance(tweak.get("nodepoolSelector"), dict):
        yield Finding("unused-entry", field, "applies to no node pool: it has neither pools nor nodepoolSelector")
    changes = tweak.get("tweaks")
    if isinstance(changes, dict):
        yield from find_unknown_fields(changes, _TWEAKS, field=f"{field}.tweaks", owner="tweaks")
    else:
        yield mistyped(f"{field}.tweaks", "an object", changes)


def _check_template(templates: JSON, field: str) -> Iterator[Finding]:
    if not isinstance(templates, dict):
        yield Finding("required", field, f"is required, with one of {' and '.join(_TEMPLATES)}")
        return
    yield from find_unknown_fields(templates, _TEMPLATES, field=field, owner="workloadTemplate")
    given = [member for member in _TEMPLATES if templates.get(member)]
    if not given and not templates.keys() - set(_TEMPLATES):
        yield Finding("required", field, f"must have one of {' and '.join(_TEMPLATES)}")
    for member in given:
        template, path = templates[member], f"{field}.{member}"
        if isinstance(template, dict):
            yield from find_unknown_fields(template, ("metadata", "spec"), field=path, owner=member)
        else:
            yield mistyped(path, "an object", template)


def _check_topology(topology: Mapping[str, JSON]) -> Iterator[Finding]:
    field = "spec.topology"
    yield from find_unknown_fields(topology, ("pools",), field=field, owner="topology")
    pools = topology.get("pools")
    if pools is not None and not isinstance(pools, list):
        yield mistyped(f"{field}.pools", "a list", pools)
        return
    seen: set[str] = set()
    for number, pool in enumerate(pools or ()):
        yield from _check_pool(pool, f"{field}.pools[{number}]", seen)


def _check_pool(pool: JSON, field: str, seen: set[str]) -> Iterator[Finding]:
    if not isinstance(pool, dict):
        yield mistyped(field, "an object with name", pool)
        return
    yield from find_unknown_fields(pool, _POOL, field=field, owner="a pool")
    name = pool.get("name")
    if isinstance(name, bool | int | float):
        yield Finding("invalid", f"{field}.name", f"must be text, not {type_name(name)}{quote_advice(name)}")
    elif not isinstance(name, str) or not name:
        yield Finding("required", f"{field}.name", "is required")
    elif name in seen:
        yield Finding("duplicate", f"{field}.name", f"is {name!r} a second time; each node pool is listed once")
    else:
        seen.add(name)
    replicas = pool.get("replicas")
    if replicas is not None and (problem := replicas_problem(replicas)) is not None:
        yield Finding("invalid", f"{field}.replicas", problem)


_ANY_POOL: Final = "pool"
_INDEX: Final = re.compile(r"/(\d+)(?=/|$)")
_OPERATIONS: Final = ("add", "remove", "replace")
_WEBHOOK: Final = (
    "OpenYurt's webhook refuses it, because it applies each tweak to the spec of the template, without metadata"
)


def check_workloads(group_kind: GroupKind, subject: JSONObject) -> Iterator[Finding]:
    """Yield the mistakes in the workloads of a subject of a valid shape, each once.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: The subject.
    """
    if count_values(templates_of(subject), limit=MAX_TEMPLATE_VALUES) > MAX_TEMPLATE_VALUES:
        return
    for kind in workload_kinds(subject):
        try:
            bare = compile_template(group_kind, subject, kind=kind)
        except SubjectError as error:
            field = f"{templates_path(subject)}.{TEMPLATES[kind]}"
            yield Finding("does-not-fit", field, str(error))
            continue
        known = _find_in(bare)
        for found in known:
            yield _as_finding(found, _field_of(found, subject, kind))
        if is_v1beta1(subject):
            yield from _check_tweaks(subject, kind)
        elif group_kind == YURT_APP_SET:
            yield from _check_pool_patches(subject, kind, known=frozenset(known))


def check_template(group_kind: GroupKind, subject: JSONObject) -> Iterator[Finding]:
    """Yield the mistakes in the template of a subject, for the author of its overrider."""
    if count_values(templates_of(subject), limit=MAX_TEMPLATE_VALUES) > MAX_TEMPLATE_VALUES:
        return  # The dry run reports that nothing was checked.
    name = f"{group_kind.kind} {subject['metadata']['name']}"
    for kind in workload_kinds(subject):
        try:
            found = _find_in(compile_template(group_kind, subject, kind=kind))
        except SubjectError:
            continue  # The dry run reports that nothing could be rendered.
        for one in found:
            yield Finding("template", "subject.name", f"the template of {name} is not valid: {one}")


def compile_template(group_kind: GroupKind, subject: JSONObject, *, kind: str) -> BarePlan:
    """Return the plan of the template alone, for a node pool without settings; raises SubjectError."""
    alone = PoolSettings(config={"name": _ANY_POOL}, tweaks=())
    return compile_bare(group_kind, subject, kind=kind, pool=_ANY_POOL, node_pool=None, settings=alone)


def _find_in(bare: BarePlan) -> list[WorkloadFinding]:
    return check_decoded(bare.parts.document, kind_of(bare.given))


def _as_finding(found: WorkloadFinding, field: str, *, where: str = "") -> Finding:
    code = "dropped" if found.problem == "unknown" else "refused"
    return Finding(code, field, f"{found.message}{where}")


def _field_of(found: WorkloadFinding, subject: JSONObject, kind: str) -> str:
    """Return the field of a finding in the template."""
    inner = _INDEX.sub(r"[\1]", found.pointer).replace("/", ".").replace("~1", "/").replace("~0", "~")
    return f"{templates_path(subject)}.{TEMPLATES[kind]}{inner}"


def _check_pool_patches(subject: JSONObject, kind: str, *, known: frozenset[WorkloadFinding]) -> Iterator[Finding]:
    pools = as_object(as_object(subject.get("spec")).get("topology")).get("pools")
    for number, config in enumerate_objects(pools):
        name, patch = config.get("name"), config.get("patch")
        if not isinstance(name, str) or not patch:
            continue
        field, where = f"spec.topology.pools[{number}].patch", f" (node pool {name}, {kind})"
        if not isinstance(patch, dict):
            form = "must be a strategic merge patch, such as {spec: {paused: true}}; this form patches nothing"
            yield Finding("refused", field, f"{form}{where}")
            continue
        settings = PoolSettings(config=config)
        without = PoolSettings(config={**config, "patch": {}})
        try:
            bare, unpatched = (
                compile_bare(YURT_APP_SET, subject, kind=kind, pool=name, node_pool=None, settings=one)
                for one in (settings, without)
            )
        except SubjectError as error:
            yield Finding("does-not-fit", field, f"{error}{where}")
            continue
        for found in _find_in(bare):
            if found not in known:
                yield _as_finding(found, field, where=f", at {found.pointer}{where}")
        if bare.parts.document["spec"] == unpatched.parts.document["spec"] and _keeps_metadata(patch):
            yield Finding("no-effect", field, f"changes nothing{where}")


def _keeps_metadata(patch: JSONObject) -> bool:
    return not as_object(patch.get("metadata"))


def _check_tweaks(subject: JSONObject, kind: str) -> Iterator[Finding]:
    """Yield the tweaks that OpenYurt's webhook refuses, and those without effect.

    Source: validateDeployment and validateStatefulSet in pkg/yurtmanager/webhook/yurtappset/v1beta1 (OpenYurt v1.5 to
    v1.7). The webhook applies each tweak by itself, to a workload with the spec of the template and without metadata.
    """
    of: Kind = "StatefulSet" if kind == "StatefulSet" else "Deployment"
    template = members_of(as_object(as_object(templates_of(subject)).get(TEMPLATES[kind])).get("spec"))
    bare = normalize_workload({"apiVersion": "apps/v1", "kind": kind, "metadata": {}, "spec": dict(template)}, of)
    known = frozenset(check_workload(bare, of))
    pod = as_object(as_object(bare["spec"].get("template")).get("spec"))
    names = [
        container.get("name")
        for member in ("containers", "initContainers")
        for _, container in enumerate_objects(pod.get(member))
    ]
    for number, tweak in enumerate(tweaks_of(subject)):
        field = f"spec.workload.workloadTweaks[{number}]"
        changes = as_object(as_object(tweak).get("tweaks"))
        mistakes = [*_check_members(changes, f"{field}.tweaks", names)]
        yield from mistakes
        if any(one.level == "error" for one in mistakes):
            continue
        try:
            tweaked = apply_tweaks(bare, subject, (number,), kind=kind, pool="")
        except SubjectError as error:
            place, separator, problem = str(error).partition(" does not fit")
            where = place if separator and place.startswith(field) else field
            yield Finding("does-not-fit", where, f"{(separator + problem).strip() or error}; {_WEBHOOK} ({kind})")
            continue
        for found in check_workload(tweaked, of):
            if found not in known:
                yield _as_finding(found, field, where=f", at {found.pointer} ({kind})")


def _check_members(changes: JSON, field: str, containers: list[JSON]) -> Iterator[Finding]:
    if not changes:
        yield Finding("no-effect", field, "changes nothing: it has no replicas, containerImages or patches")
    replicas = changes.get("replicas")
    if replicas is not None and (problem := replicas_problem(replicas)) is not None:
        yield Finding("invalid", f"{field}.replicas", problem)
    for number, image in enumerate_objects(changes.get("containerImages")):
        name, place = image.get("name"), f"{field}.containerImages[{number}]"
        if name not in containers:
            known = ", ".join(map(str, containers)) or "none"
            yield Finding("unknown-container", f"{place}.name", f"no container is named {name!r}; there are {known}")
        if not image.get("targetImage"):
            yield Finding("required", f"{place}.targetImage", "is required: the image")
    for number, patch in enumerate_objects(changes.get("patches")):
        place = f"{field}.patches[{number}]"
        if patch.get("operation") not in _OPERATIONS:
            yield Finding("unsupported", f"{place}.operation", f"must be one of {', '.join(_OPERATIONS)}")
        elif patch["operation"] != "remove" and patch.get("value") is None:
            yield Finding("required", f"{place}.value", f"is required when operation is {patch['operation']}")
        if TWEAK_POOL_TOKEN in str(patch.get("path")):
            message = f"{TWEAK_POOL_TOKEN} is not replaced in a path, and stays as it is"
            yield Finding("token", f"{place}.path", message)
