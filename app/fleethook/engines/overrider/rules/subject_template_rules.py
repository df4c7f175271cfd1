"""Rules for a YurtAppSet or YurtAppDaemon alone: its members that rendering reads, and the workloads that it describes.

OpenYurt validates its own objects at admission. The command line applies these rules to manifests.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from fleethook.api_schema import check_object
from fleethook.engines.overrider.plan.plan_and_digest import BarePlan, compile_bare, kind_of
from fleethook.engines.overrider.rules.entry_rules import check_selector, is_empty_selector
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.image_and_placeholder_rules import (
    OUTSIDE_OVERRIDERS,
    OUTSIDE_TWEAKS,
    check_image,
    list_images,
    misspelled_tokens,
)
from fleethook.engines.overrider.rules.tweak_and_topology_rules import (
    TWEAKS,
    check_pool_patches,
    check_selection,
    check_topology,
    check_tweak,
    check_tweaks,
)
from fleethook.engines.overrider.subject.subject_and_pools import is_v1beta1
from fleethook.engines.overrider.template.pool_template_and_placement import PoolSettings, SubjectError
from fleethook.engines.overrider.template.template_builder import (
    TEMPLATES,
    templates_of,
    templates_path,
    workload_kinds,
)
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, count_values, enumerate_objects
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.workload_schema import WorkloadFinding, check_decoded, check_workload

_TEMPLATES: Final = ("deploymentTemplate", "statefulSetTemplate")
MAX_TEMPLATE_VALUES: Final = 25_000
"""Values of a subject's templates, for checks of its overrider. Rendering that many takes a quarter of a second, in
slices of up to 30 ms."""


def check_subject(group_kind: GroupKind, subject: JSONObject) -> Iterator[Finding]:
    """Yield the mistakes in a subject: values that its schema does not allow, or without these all others.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: An object with metadata.
    """
    disallowed = [finding for finding in check_object(subject) if finding.code in ("invalid", "unsupported")]
    yield from (Finding(finding.code, finding.field, finding.message) for finding in disallowed)
    if disallowed:
        return
    spec = subject.get("spec")
    if spec is None:
        yield Finding("required", "spec", "is required")
    elif is_v1beta1(subject):
        yield from _check_app_set_v1beta1(spec)
    else:
        yield from _check_v1alpha1(group_kind, spec)


def _check_v1alpha1(group_kind: GroupKind, spec: Mapping[str, JSON]) -> Iterator[Finding]:
    yield from _check_templates(spec.get("workloadTemplate"), "spec.workloadTemplate")
    if (selector := spec.get("selector")) is not None:
        yield from (mistakes := [*check_selector("spec.selector", selector)])
        if not mistakes and is_empty_selector(selector):
            yield Finding("required", "spec.selector", "must have labels of the pods, as in {matchLabels: {app: web}}")
    if group_kind == YURT_APP_SET:
        yield from check_topology(as_object(spec.get("topology")))
        return
    yield from check_selection(spec, "spec")
    if spec.get("nodepoolSelector") is None:
        yield Finding("unused-entry", "spec", "selects no node pool: it has no nodepoolSelector")


def _check_app_set_v1beta1(spec: Mapping[str, JSON]) -> Iterator[Finding]:
    workload = spec.get("workload")
    if workload is None:
        yield Finding("required", "spec.workload", "is required, with workloadTemplate")
        return
    yield from _check_templates(workload.get("workloadTemplate"), "spec.workload.workloadTemplate")
    yield from check_selection(spec, "spec")
    if not spec.get("pools") and spec.get("nodepoolSelector") is None:
        yield Finding("unused-entry", "spec", "selects no node pool: it has neither pools nor nodepoolSelector")
    for number, tweak in enumerate_objects(workload.get("workloadTweaks")):
        yield from check_tweak(tweak, f"{TWEAKS}[{number}]")


def _check_templates(templates: JSON, field: str) -> Iterator[Finding]:
    given = as_object(templates)
    if all(given.get(member) for member in _TEMPLATES):
        text = f"has {' and '.join(_TEMPLATES)}, and OpenYurt's webhook admits only one: remove the other"
        yield Finding("refused", field, text)
    if not any(given.get(member) for member in _TEMPLATES) and not given.keys() - set(_TEMPLATES):
        yield Finding("required", field, f"must have one of {' and '.join(_TEMPLATES)}")


_ANY_POOL: Final = "pool"
_INDEX: Final = re.compile(r"/(\d+)(?=/|$)")


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
        yield from _check_texts(subject, kind)
        known = _find_in(bare, subject)
        for found in known:
            code = "dropped" if found.problem == "unknown" else "refused"
            yield Finding(code, _field_of(found, subject, kind), found.message)
        if is_v1beta1(subject):
            yield from check_tweaks(subject, kind)
        elif group_kind == YURT_APP_SET:
            yield from check_pool_patches(subject, kind, known=frozenset(known))


def check_template(group_kind: GroupKind, subject: JSONObject) -> Iterator[Finding]:
    """Yield the mistakes in the template of a subject, for the author of its overrider."""
    if count_values(templates_of(subject), limit=MAX_TEMPLATE_VALUES) > MAX_TEMPLATE_VALUES:
        return  # The dry run reports that nothing was checked.
    name = f"{group_kind.kind} {subject['metadata']['name']}"
    for kind in workload_kinds(subject):
        try:
            findings = _find_in(compile_template(group_kind, subject, kind=kind), subject)
        except SubjectError:
            continue  # The dry run reports that nothing could be rendered.
        for finding in findings:
            yield Finding("template", "subject.name", f"the template of {name} is not valid: {finding}")


def compile_template(group_kind: GroupKind, subject: JSONObject, *, kind: str) -> BarePlan:
    """Return the plan of the template alone, for a node pool without settings; raises SubjectError."""
    alone = PoolSettings(config={"name": _ANY_POOL})
    return compile_bare(group_kind, subject, kind=kind, pool=_ANY_POOL, node_pool=None, settings=alone)


def _check_texts(subject: JSONObject, kind: str) -> Iterator[Finding]:
    """Yield the invalid images in a template, and the tokens that nothing replaces there."""
    template = as_object(as_object(templates_of(subject)).get(TEMPLATES[kind]))
    field = f"{templates_path(subject)}.{TEMPLATES[kind]}"
    token = OUTSIDE_TWEAKS if is_v1beta1(subject) else OUTSIDE_OVERRIDERS
    images = {f"{field}{place}": image for place, image in list_images(template)}
    yield from (finding for finding in misspelled_tokens(template, field, token) if finding.field not in images)
    for place, image in images.items():
        yield from check_image(image, place, pools=(), token=token)


def _find_in(bare: BarePlan, subject: JSONObject) -> list[WorkloadFinding]:
    """Return the findings about the bare plan of a template, with the members of the template that Go's types lack."""
    kind = kind_of(bare.written)
    template = as_object(as_object(templates_of(subject)).get(TEMPLATES[kind]))
    written = {name: template[name] for name in ("metadata", "spec") if isinstance(template.get(name), dict)}
    unknown = [finding for finding in check_workload({"metadata": {}, **written}, kind) if finding.problem == "unknown"]
    return sorted({*unknown, *check_decoded(bare.parts.document, kind)})


def _field_of(mistake: WorkloadFinding, subject: JSONObject, kind: str) -> str:
    """Return the field of a finding in the template."""
    inner = _INDEX.sub(r"[\1]", mistake.pointer).replace("/", ".").replace("~1", "/").replace("~0", "~")
    return f"{templates_path(subject)}.{TEMPLATES[kind]}{inner}"
