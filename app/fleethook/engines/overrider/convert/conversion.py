"""Converts all subjects in a store, and reports those that cannot be converted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fleethook.cluster.store import ObjectKey, StoreView, key_of
from fleethook.engines.overrider.convert.pool_conversion import (
    PoolConversion,
    convert_pool,
    find_selectors,
    group_tweaks,
)
from fleethook.engines.overrider.convert.remarks import (
    Remark,
    Subject,
    check_pools,
    compare_pool,
    describe_entries,
    refusals,
)
from fleethook.engines.overrider.convert.states import PoolSource
from fleethook.engines.overrider.convert.subject_conversion import (
    convert_subject,
    find_refusal,
    prepare_trial,
    with_tweaks,
)
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.rules.overrider_rules import check_overrider
from fleethook.engines.overrider.rules.subject_rules import check_subject
from fleethook.engines.overrider.subject.owner_index import overriders_of, subject_of
from fleethook.engines.overrider.subject.subject_members import (
    TEMPLATES,
    SetSelections,
    is_v1beta1,
    pools_of_subject,
    templates_of,
    topology,
    workload_kinds,
)
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import NODE_POOL, SUBJECT_KINDS, YURT_APP_OVERRIDER, YURT_APP_SET
from fleethook.patch import identical, parse_pointer
from fleethook.workload_schema.go_structs import Kind


def move_removed_keys(
    converted: JSONObject, remarks: Sequence[Remark], *, kind: str
) -> tuple[JSONObject, list[Remark]] | None:
    """Return a converted subject without the lost members of its template, None if there are none.

    Args:
        converted: A YurtAppSet v1beta1 without tweaks.
        remarks: The losses of the conversion.
        kind: Deployment or StatefulSet.
    """
    templates = converted["spec"]["workload"]["workloadTemplate"]
    template, moved = templates[TEMPLATES[kind]], []
    for remark in remarks:
        # A template has its members at the same paths as a workload.
        tokens = parse_pointer(remark.path)
        if remark.code == "lost" and remark.before is None and _is_member(template, tokens, remark.after):
            template = _remove_member(template, tokens)
            text = f"{remark.path} moves from the template to tweaks, so that patches can remove it"
            moved.append(Remark("note", "moved", remark.key, remark.field, text, remark.pools))
    if not moved:
        return None
    workload = {**converted["spec"]["workload"], "workloadTemplate": {TEMPLATES[kind]: template}}
    return {**converted, "spec": {**converted["spec"], "workload": workload}}, moved


def _is_member(document: JSON, tokens: Sequence[str], value: JSON) -> bool:
    """Return whether a document has that value at that path."""
    for token in tokens:
        if isinstance(document, list):
            document = document[int(token)] if token.isdecimal() and int(token) < len(document) else None
        elif isinstance(document, dict):
            document = document.get(token)
    return bool(tokens) and value is not None and bool(identical(document, value))


def _remove_member(document: JSON, tokens: Sequence[str]) -> JSON:
    """Return a document without a member, and without objects that become empty."""
    token, rest = tokens[0], tokens[1:]
    if isinstance(document, list):
        return [_remove_member(one, rest) if str(number) == token else one for number, one in enumerate(document)]
    others = {name: value for name, value in document.items() if name != token}
    inner = _remove_member(document[token], rest) if rest else None
    return {name: inner if name == token else value for name, value in document.items()} if inner else others


_LABELS = "/spec/template/metadata/labels"


def complete_labels(key: ObjectKey, subject: JSONObject, *, kind: str) -> tuple[JSONObject, list[Remark]]:
    """Add the labels of a subject's selector to its pods; return the subject and the remarks.

    Args:
        key: The subject.
        subject: A subject of v1alpha1.
        kind: Deployment or StatefulSet.
    """
    remarks = list(_report_expressions(key, subject))
    missing = _find_missing_labels(key.group_kind, subject, kind)
    if not missing:
        return subject, remarks
    remarks += [
        Remark(
            "warning", "label-added", key, f"spec.workloadTemplate.{TEMPLATES[kind]}",
            f"the pods get the label {name}={value} of the selector, which kube-apiserver requires",
            path=f"{_LABELS}/{name}",
        )
        for name, value in missing.items()
    ]  # fmt: skip
    return _add_labels(subject, kind, missing), remarks


def _find_missing_labels(group_kind: GroupKind, subject: JSONObject, kind: str) -> JSONObject:
    spec = as_object(as_object(as_object(templates_of(subject)).get(TEMPLATES[kind])).get("spec"))
    own = as_object(as_object(spec.get("selector")).get("matchLabels"))
    selected = as_object(as_object(as_object(subject.get("spec")).get("selector")).get("matchLabels"))
    labels = as_object(as_object(as_object(spec.get("template")).get("metadata")).get("labels"))
    selector = selected if group_kind == YURT_APP_SET else own or selected
    return {name: value for name, value in selector.items() if name not in labels}


def _add_labels(subject: JSONObject, kind: str, missing: JSONObject) -> JSONObject:
    template = as_object(templates_of(subject))[TEMPLATES[kind]]
    spec = as_object(template.get("spec"))
    pods = as_object(spec.get("template"))
    metadata = as_object(pods.get("metadata"))
    labelled = {**pods, "metadata": {**metadata, "labels": {**as_object(metadata.get("labels")), **missing}}}
    made = {TEMPLATES[kind]: {**template, "spec": {**spec, "template": labelled}}}
    return {**subject, "spec": {**subject["spec"], "workloadTemplate": made}}


def _report_expressions(key: ObjectKey, subject: JSONObject) -> list[Remark]:
    selector = as_object(as_object(subject.get("spec")).get("selector"))
    if not selector.get("matchExpressions"):
        return []
    text = "is dropped: rendering uses only matchLabels; add the expressions to the template's own selector"
    return [Remark("warning", "selector", key, "spec.selector.matchExpressions", text)]


class Converted(NamedTuple):
    """The result of converting one subject."""

    key: ObjectKey
    """The subject of v1alpha1."""
    document: JSONObject | None
    """The YurtAppSet v1beta1, None if the subject cannot be converted."""
    remarks: tuple[Remark, ...]
    pools: tuple[str, ...] = ()
    """The node pools whose workloads were compared."""


def convert(documents: Sequence[JSONObject], store: StoreView) -> Iterator[Converted]:
    """Yield the subjects of v1alpha1 among ``documents`` as YurtAppSets v1beta1, in their order.

    Args:
        documents: The subjects to convert. Their overriders come from the store.
        store: Overriders, NodePools and all subjects.
    """
    for document in documents:
        key = key_of(document)
        if key.group_kind in SUBJECT_KINDS and not is_v1beta1(document):
            yield _convert_one(key, document, store)


def find_unconverted_overriders(documents: Sequence[JSONObject], store: StoreView) -> Iterator[Remark]:
    """Yield the overriders among ``documents`` that are not converted, because their subjects are not."""
    for document in documents:
        key = key_of(document)
        if key.group_kind != YURT_APP_OVERRIDER:
            continue
        kind, name = subject_of(document) or ("", "")
        subject = store.get(key.cluster, GroupKind(YURT_APP_SET.group, kind), key.namespace, name)
        if subject is None:
            text = f"{kind or 'the subject'} {name} is not in the input, so the overrider is not converted: add it"
            yield Remark("error", "not-converted", key, "subject", text)
        elif is_v1beta1(subject):
            text = f"{kind} {name} is already a v1beta1 object: the overrider applies to it unchanged"
            yield Remark("note", "kept", key, "subject", text)


def _convert_one(key: ObjectKey, document: JSONObject, store: StoreView) -> Converted:
    bound = overriders_of(store, cluster=key.cluster, namespace=key.namespace, group_kind=key.group_kind, name=key.name)
    if mistakes := [*_find_mistakes(key, document, bound)]:
        return Converted(key, None, tuple(mistakes))
    remarks = [*_find_ignored_overriders(bound), *_check_name(key, store)]
    try:
        kind = _get_kind(document)
        completed, added = complete_labels(key, document, kind=kind)
        subject = Subject(key, completed, bound[0] if bound else None, kind, store)
        made, found = _convert_pools(subject)
    except SubjectError as error:
        return Converted(key, None, (*remarks, Remark("error", "not-converted", key, "", str(error))))
    pools = pools_of_subject(key.group_kind, completed, cluster=key.cluster, store=store)
    return Converted(key, made, (*remarks, *added, *found), tuple(pools))


def _find_mistakes(key: ObjectKey, document: JSONObject, bound: Sequence[JSONObject]) -> Iterator[Remark]:
    """Yield the mistakes in a subject and its overrider that admission refuses for any template."""
    found = [(key, finding) for finding in check_subject(key.group_kind, document)]
    found += [(key_of(one), finding) for one in bound[:1] for finding in check_overrider(one)]
    for owner, finding in found:
        if finding.level == "error":
            text = f"{finding.message} (so {key.group_kind.kind} {key.name} is not converted)"
            yield Remark("error", "not-converted", owner, finding.field, text)


def _get_kind(document: JSONObject) -> Kind:
    kinds = workload_kinds(document)
    if len(kinds) == 1:
        return "StatefulSet" if kinds[0] == "StatefulSet" else "Deployment"
    if kinds:
        raise SubjectError("v1beta1 takes one template, and this has two: create a YurtAppSet for each")
    raise SubjectError("spec.workloadTemplate has no template, so there is nothing to convert")


def _find_ignored_overriders(bound: Sequence[JSONObject]) -> Iterator[Remark]:
    for overrider in bound[1:]:
        text = f"is not converted: {bound[0]['metadata']['name']} is in effect for the same subject"
        yield Remark("warning", "not-in-effect", key_of(overrider), "", text)


def _check_name(key: ObjectKey, store: StoreView) -> Iterator[Remark]:
    if key.group_kind != YURT_APP_SET and store.get(key.cluster, YURT_APP_SET, key.namespace, key.name) is not None:
        text = f"becomes a YurtAppSet, but a YurtAppSet named {key.name} exists: rename one of them before you apply it"
        yield Remark("error", "name-taken", key, "metadata.name", text)


def _convert_pools(subject: Subject) -> tuple[JSONObject, list[Remark]]:
    """Return the converted subject and the remarks about it.

    If an entry removes the key of a map in some pools, OpenYurt keeps the key as long as the template has it. So this
    function moves the key from the template to a tweak, and converts the subject again.
    """
    key, document = subject.key, subject.document
    pools = pools_of_subject(key.group_kind, document, cluster=key.cluster, store=subject.store)
    bare = convert_subject(key.group_kind, document, kind=subject.kind, pools=pools)
    moved: list[Remark] = []
    made, remarks = _convert_from(bare, pools, subject)
    while (template := move_removed_keys(bare, remarks, kind=subject.kind)) is not None:
        bare, found = template
        moved += found
        made, remarks = _convert_from(bare, pools, subject)
    return made, [*check_pools(subject, pools), *moved, *remarks]


def _convert_from(bare: JSONObject, pools: Sequence[str], subject: Subject) -> tuple[JSONObject, list[Remark]]:
    remarks: list[Remark] = []
    conversions: list[tuple[PoolSource, PoolConversion]] = []
    configs = topology(subject.document["spec"])
    for number, pool in enumerate(pools):
        source = _make_source(subject, bare, pool)._replace(number=number, config=configs.get(pool))
        source, conversion, failure = _convert_pool(subject, source)
        conversions.append((source, conversion))
        remarks += failure
    made_for = [conversion for _, conversion in conversions]
    trial = prepare_trial(bare, subject.kind, [conversion.wanted for conversion in made_for])
    tweaks = group_tweaks(
        made_for,
        every=frozenset(pools),
        fits=lambda tweak: not find_refusal(tweak, trial),
        selectors=find_selectors(subject.overrider, [source for source, _ in conversions]),
    )
    made = with_tweaks(bare, tweaks)
    remarks += describe_entries(subject, made_for, tweaks)
    remarks += refusals(tweaks, trial, subject)
    selections = SetSelections(made)
    for source, one in conversions:
        numbers = selections.tweaks(source.pool, source.node_pool)
        remarks += compare_pool(one, made, source=source, subject=subject, tweaks=numbers)
    return made, remarks


def _convert_pool(subject: Subject, source: PoolSource) -> tuple[PoolSource, PoolConversion, list[Remark]]:
    """Return the tweaks of a pool. If the overrider does not fit, convert without it, and return the reason."""
    try:
        return source, convert_pool(source), []
    except RenderError as error:
        assert subject.overrider is not None
        text = f"does not fit, so the workload is converted without the overrider: {error.reason}"
        failure = Remark("error", "not-rendered", key_of(subject.overrider), error.field, text, (source.pool,))
    without = source._replace(entries=())
    return without, convert_pool(without), [failure]


def _make_source(subject: Subject, bare: JSONObject, pool: str) -> PoolSource:
    entries: JSON = as_object(subject.overrider or {}).get("entries")
    listed = entries if isinstance(entries, list) else []
    node_pool = subject.store.get(subject.key.cluster, NODE_POOL, "", pool)
    return PoolSource(subject.key.group_kind, subject.document, listed, subject.kind, pool, node_pool, bare)


def merge_remarks(remarks: Sequence[Remark]) -> list[Remark]:
    """Merge remarks that differ only by their node pools, in their order."""
    merged: dict[tuple[str, ...], Remark] = {}
    for remark in remarks:
        same = (*map(str, remark[:5]), remark.path)
        known = merged[same].pools if same in merged else ()
        merged[same] = remark._replace(pools=tuple(dict.fromkeys((*known, *remark.pools))))
    return list(merged.values())
