"""Rules for a YurtAppSet or YurtAppDaemon alone, for the members that rendering reads.

OpenYurt validates its own objects at admission. The command line applies these rules to manifests.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.unknown_fields import METADATA, find_unknown_fields
from fleethook.engines.overrider.rules.value_shapes import mistyped, quote_advice, replicas_problem, type_name
from fleethook.engines.overrider.subject.subject_parts import is_v1beta1
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.model.selectors import validate_selector

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
