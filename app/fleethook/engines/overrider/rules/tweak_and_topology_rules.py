"""Rules for YurtAppSets: selections and tweaks of v1beta1, as for overriders if both have the member, and topologies.

Sources: OpenYurt v1.5 to v1.7: workloadmanager/tweaks.go and util.go, and validateDeployment and validateStatefulSet in
pkg/yurtmanager/webhook/yurtappset/v1beta1. The webhook applies each tweak by itself, to a workload with the spec of the
template and without metadata.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec

from fleethook.engines.overrider.entries.entry_selection import EVERY_POOL, EXCLUDE, sample_names
from fleethook.engines.overrider.entries.steps_and_limits import LIMITS, Remark
from fleethook.engines.overrider.plan.plan_and_digest import BarePlan, compile_bare, kind_of
from fleethook.engines.overrider.plan.plan_cache import PoolPlan
from fleethook.engines.overrider.render.stored_workload_comparison import find_differences
from fleethook.engines.overrider.rules.entry_rules import (
    SELECTOR,
    TWEAK_PATCH,
    check_patch,
    check_selector,
    is_empty_selector,
    replicas_problem,
)
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.image_and_placeholder_rules import (
    OUTSIDE_OVERRIDERS,
    OUTSIDE_TWEAKS,
    check_image,
    list_images,
)
from fleethook.engines.overrider.subject.subject_and_pools import SetSelections, tweaks_of
from fleethook.engines.overrider.template.pool_template_and_placement import PoolSettings, SubjectError, members_of
from fleethook.engines.overrider.template.template_builder import TEMPLATES, templates_of, templates_path
from fleethook.engines.overrider.template.tweaks import apply_tweaks, list_operations
from fleethook.model.formats.text import list_names
from fleethook.model.json import JSON, JSONObject, as_object, enumerate_objects, list_objects, list_texts
from fleethook.model.merge_keys import WORKLOAD
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.patch import apply, strategic_merge
from fleethook.workload_schema import (
    WorkloadFinding,
    check_decoded,
    check_workload,
    decode_workload,
    normalize_workload,
)
from fleethook.workload_schema.go_structs import DecodeError, Kind, decode_into, print_workload

TWEAKS: Final = "spec.workload.workloadTweaks"
_CHANGES: Final = ("replicas", "containerImages", "patches")
_WEBHOOK: Final = (
    "OpenYurt's webhook refuses it, because it applies each tweak to the spec of the template, without metadata"
)
_KEPT: Final = (
    "OpenYurt decodes the patched workload into the same object, in which removed members stay: replace a member by "
    "null, and a text, number or boolean by its zero value"
)


def check_selection(selection: Mapping[str, JSON], field: str) -> Iterator[Finding]:
    """Yield the mistakes in ``pools`` and ``nodepoolSelector``.

    Args:
        selection: The spec of a subject, or a tweak.
        field: Its path.
    """
    pools, selector = selection.get("pools"), selection.get("nodepoolSelector")
    for number, pool in enumerate(pools or ()):
        if (problem := _find_pool_problem(pool)) is not None:
            yield Finding("invalid", f"{field}.pools[{number}]", problem)
    if selector is None:
        return
    mistakes = [*check_selector(f"{field}.nodepoolSelector", selector)]
    yield from mistakes
    if not mistakes and is_empty_selector(selector):
        if any(name in selector for name in SELECTOR):
            text = "has no condition, so it selects every node pool: add one, or write {} if you mean that"
            yield Finding("empty-selector", f"{field}.nodepoolSelector", text)
        elif pools:
            text = "changes nothing, because nodepoolSelector is {}, which selects every node pool: remove one of them"
            yield Finding("no-effect", f"{field}.pools", text)


def _find_pool_problem(pool: str) -> str | None:
    if pool == EVERY_POOL:
        return "OpenYurt looks for a node pool of the name '*': write nodepoolSelector: {} for every node pool"
    if pool.startswith(EXCLUDE):
        return f"OpenYurt excludes no node pools, and none can be named {pool!r}: list the others"
    return None if pool else "must be a pool's name, not an empty text"


def check_tweak(tweak: Mapping[str, JSON], field: str) -> Iterator[Finding]:
    """Yield the mistakes in a tweak that need no template to be found.

    Args:
        tweak: The tweak, whose members have the right types.
        field: Its path.
    """
    yield from check_selection(tweak, field)
    if not tweak.get("pools") and not isinstance(tweak.get("nodepoolSelector"), dict):
        yield Finding("unused-entry", field, "applies to no node pool: it has neither pools nor nodepoolSelector")
    changes, place = as_object(tweak.get("tweaks")), f"{field}.tweaks"
    if not any(changes.get(name) not in (None, []) for name in _CHANGES):
        yield Finding("no-effect", place, "changes nothing: it has no replicas, containerImages or patches")
    replicas = changes.get("replicas")
    if replicas is not None and (problem := replicas_problem(replicas)) is not None:
        yield Finding("invalid", f"{place}.replicas", problem)
    for number, image in enumerate_objects(changes.get("containerImages")):
        where = f"{place}.containerImages[{number}].targetImage"
        if target := image.get("targetImage"):
            yield from check_image(target, where, pools=(), token=OUTSIDE_TWEAKS)
        else:
            yield Finding("required", where, "is required: the image")
    pools = sample_names(list_texts(tweak.get("pools")))
    for number, patch in enumerate(list_objects(changes.get("patches"))[: LIMITS.operations]):
        missing = [name for name in ("operation", "path") if patch.get(name) is None]
        yield from (Finding("required", f"{place}.patches[{number}].{name}", "is required") for name in missing)
        if not missing:
            yield from check_patch(patch, f"{place}.patches[{number}]", pools=pools, form=TWEAK_PATCH)


def check_tweaks(subject: JSONObject, kind: str) -> Iterator[Finding]:
    """Yield the tweaks that do not fit the template: those that OpenYurt's webhook refuses, and those without effect.

    Args:
        subject: A YurtAppSet v1beta1 without mistakes that `check_tweak` finds.
        kind: Deployment or StatefulSet.
    """
    of: Kind = "StatefulSet" if kind == "StatefulSet" else "Deployment"
    template = members_of(as_object(as_object(templates_of(subject)).get(TEMPLATES[kind])).get("spec"))
    bare = normalize_workload({"apiVersion": "apps/v1", "kind": kind, "metadata": {}, "spec": dict(template)}, of)
    known = frozenset(check_workload(bare, of))
    if template.get("selector") is None:
        # OpenYurt's controller would make one, but its webhook validates the template as it is written.
        field = f"{templates_path(subject)}.{TEMPLATES[kind]}.spec.selector"
        yield Finding("refused", field, "is required: OpenYurt's webhook refuses a template without selector")
    for number, tweak in enumerate(tweaks_of(subject)):
        field, changes = f"{TWEAKS}[{number}]", as_object(as_object(tweak).get("tweaks"))
        yield from _check_members(bare, changes, f"{field}.tweaks")
        try:
            tweaked = apply_tweaks(bare, subject, (number,), kind=kind, pool="")
        except SubjectError as error:
            place, separator, problem = str(error).partition(" does not fit")
            where = place if separator and place.startswith(field) else field
            yield Finding("does-not-fit", where, f"{(separator + problem).strip() or error}; {_WEBHOOK} ({kind})")
            continue
        yield from _check_patches(bare, number, changes, of)
        for found in check_workload(tweaked, of):
            if found not in known:
                yield Finding("refused", field, f"{found.message}, at {found.pointer} ({kind})")


def _check_members(bare: JSONObject, changes: Mapping[str, JSON], field: str) -> Iterator[Finding]:
    """Yield the replicas and images that are as in the template, and the images of unknown containers."""
    if (replicas := changes.get("replicas")) is not None and replicas == bare["spec"].get("replicas", 1):
        yield Finding("no-effect", f"{field}.replicas", f"changes nothing: replicas is {replicas} already")
    pod = as_object(as_object(bare["spec"].get("template")).get("spec"))
    images = {
        container.get("name"): container.get("image")
        for member in ("containers", "initContainers")
        for _, container in enumerate_objects(pod.get(member))
    }
    for number, image in enumerate_objects(changes.get("containerImages")):
        name, target, place = image.get("name"), image.get("targetImage"), f"{field}.containerImages[{number}]"
        if name not in images:
            there = ", ".join(map(str, images)) or "none"
            yield Finding("unknown-container", f"{place}.name", f"no container is named {name!r}; there are {there}")
        elif images[name] == target:
            text = f"changes nothing: the image of {name} is {target} already"
            yield Finding("no-effect", f"{place}.targetImage", text)


def _check_patches(bare: JSONObject, number: int, changes: Mapping[str, JSON], kind: Kind) -> Iterator[Finding]:
    """Yield the patches of a tweak that set unknown fields or change nothing. They must fit the template."""
    fields, operations = list_operations([(number, dict(changes))], pool="")
    before, text, known = bare, print_workload(bare, kind), set[WorkloadFinding]()
    for field, operation in zip(fields, operations, strict=True):
        text = apply(text, [operation], dialect="kubernetes", limits=LIMITS)
        unknown = [one for one in check_workload(text, kind) if one.problem == "unknown" and one not in known]
        known.update(unknown)
        yield from (Finding("dropped", field, f"{one.message}, at {one.pointer} ({kind})") for one in unknown)
        with suppress(DecodeError):  # OpenYurt decodes the result of all patches, which may have the right types.
            after = decode_into(bare, text, kind)
            if after == before and not unknown:
                idle = f"{operation['op']} {operation['path']} changes nothing"
                yield Finding("no-effect", field, f"{idle}; {_KEPT}" if operation["op"] == "remove" else idle)
            before = after


_MAX_COMBINATIONS: Final = 100
"""Rendering one takes some milliseconds."""


def check_combined_tweaks(
    subject: JSONObject, kind: str, node_pools: Mapping[str, JSONObject | None]
) -> Iterator[Finding]:
    """Yield the mistakes in workloads that none of their tweaks causes alone. OpenYurt's webhook does not find them.

    Args:
        subject: A YurtAppSet v1beta1 in which `check_tweaks` finds no error.
        kind: Deployment or StatefulSet.
        node_pools: The node pools of the set.
    """
    selections, pools = SetSelections(subject), dict[tuple[int, ...], list[str]]()
    for name, node_pool in node_pools.items():
        pools.setdefault(selections.tweaks(name, node_pool), []).append(name)
    for numbers, names in islice(((one, of) for one, of in pools.items() if len(one) > 1), _MAX_COMBINATIONS):
        findings = _render(subject, kind, numbers)
        alone = {one for number in numbers for one in _render(subject, kind, (number,))} if findings else ()
        for finding in findings:
            if finding not in alone:
                ends = (end for end in range(2, len(numbers)) if finding in _render(subject, kind, numbers[:end]))
                *former, last = numbers[: next(ends, len(numbers))]
                others = [one for one in former if finding not in _render(subject, kind, _without(numbers, one))]
                beside = ", ".join(f"workloadTweaks[{number}]" for number in others or former)
                where = f"together with {beside} (node pools {list_names(names)}; {kind})"
                yield finding._replace(field=f"{TWEAKS}[{last}]", message=f"{finding.message}, {where}")


def _without(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    return tuple(one for one in numbers if one != number)


def _render(subject: JSONObject, kind: str, numbers: tuple[int, ...]) -> list[Finding]:
    """Return the findings about the workload of a node pool to which these tweaks apply."""
    settings = PoolSettings(tweaks=numbers)
    try:
        bare = compile_bare(YURT_APP_SET, subject, kind=kind, pool="pool", node_pool=None, settings=settings)
    except SubjectError as error:
        return [Finding("does-not-fit", "", str(error))]
    findings = check_decoded(bare.parts.document, kind_of(bare.written))
    return [Finding("refused", "", f"{finding.message}, at {finding.pointer}") for finding in findings]


def check_topology(topology: Mapping[str, JSON]) -> Iterator[Finding]:
    """Yield the mistakes in names and replicas of the node pools of a YurtAppSet v1alpha1."""
    seen: set[str] = set()
    for number, pool in enumerate_objects(topology.get("pools")):
        field, name, replicas = f"spec.topology.pools[{number}]", pool.get("name"), pool.get("replicas")
        if not name:
            yield Finding("required", f"{field}.name", "is required")
        elif name in seen:
            yield Finding("duplicate", f"{field}.name", f"is {name!r} a second time; each node pool is listed once")
        else:
            seen.add(name)
        if replicas is not None and (problem := replicas_problem(replicas)) is not None:
            yield Finding("invalid", f"{field}.replicas", problem)


def compare_with_topology(plan: PoolPlan, topology: int, *, kind: str) -> Iterator[Remark]:
    """Yield a remark if the replicas of a plan differ from those of its node pool in a YurtAppSet v1alpha1."""
    shared = plan.shared.plan
    if shared.leaves_replicas or plan.values.fill(shared.create.rendered["spec"].get("replicas")) != topology:
        text = (
            f"{shared.source_of(('spec', 'replicas'))}: while replicas differ from spec.topology.pools, OpenYurt 1.4 "
            f"writes the {kind} at each reconcile, which undoes restarts and pauses; set them in the topology as well"
        )
        yield Remark("topology-replicas", text)


def check_pool_patches(subject: JSONObject, kind: str, *, known: frozenset[WorkloadFinding]) -> Iterator[Finding]:
    """Yield the mistakes in the patches of ``spec.topology``, except ``known`` ones of the template."""
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
                compile_bare(YURT_APP_SET, subject, kind=kind, pool=name, node_pool=None, settings=pool_settings)
                for pool_settings in (settings, without)
            )
        except SubjectError as error:
            yield Finding("does-not-fit", field, f"{error}{where}")
            continue
        for found in check_decoded(bare.parts.document, kind_of(bare.written)):
            if found not in known:
                code = "dropped" if found.problem == "unknown" else "refused"
                yield Finding(code, field, f"{found.message}, at {found.pointer}{where}")
        yield from _check_nulls(unpatched, patch, field, where)
        for place, image in {*list_images(bare.parts.document)} - {*list_images(unpatched.parts.document)}:
            for wrong in check_image(image, field, pools=(), token=OUTSIDE_OVERRIDERS):
                yield wrong._replace(message=f"{wrong.message}, at {place.removeprefix('.')}{where}")
        if bare.parts.document["spec"] == unpatched.parts.document["spec"] and not as_object(patch.get("metadata")):
            yield Finding("no-effect", field, f"changes nothing{where}")


def _check_nulls(unpatched: BarePlan, patch: JSONObject, field: str, where: str) -> Iterator[Finding]:
    """Yield the nulls that set a key of a map in place of removing it (`apply_pool_patch`)."""
    if b":null" not in msgspec.json.encode(patch):
        return
    kind = kind_of(unpatched.written)
    dropped, kept = (
        decode_workload(strategic_merge(unpatched.written, patch, WORKLOAD, keeps_nulls=keeps), kind)
        for keeps in (False, True)
    )
    for difference in find_differences(dropped, kept):
        change = f"a null sets {difference.pointer} to {difference.requested!r}"
        text = f"{change}, because the template has nothing to remove there"
        yield Finding("empty-value", field, f"{text}: remove the null{where}")
