"""Validates an overrider, with the same findings for admission, ``render``, ``lint`` and ``serve --manifests``."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.steps_and_limits import Remark
from fleethook.engines.overrider.rules import schema_and_selector_rules
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.missing_pools import (
    SubjectPools,
    check_controller,
    check_node_pools,
    check_pools,
    known_pools,
)
from fleethook.engines.overrider.rules.subject_template_rules import check_template
from fleethook.engines.overrider.rules.trial_render import dry_run_overrider
from fleethook.engines.overrider.subject.owner_and_overrider import overriders_of, subject_of
from fleethook.engines.overrider.subject.subject_and_pools import NodePoolView, Subject, find_subject
from fleethook.model.formats.text import suggestion
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import GROUP, SUBJECT_KINDS

# Comparing a name with more names than these takes too long for a suggestion.
_MAX_COMPARED: Final = 1000


def unknown_subject(
    overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView, every_namespace: bool
) -> Finding:
    """Return the finding about an overrider whose subject is not in the store.

    Args:
        overrider: An overrider whose subject is valid.
        cluster: Its logical cluster.
        namespace: Its namespace.
        store: The known subjects.
        every_namespace: Whether the message may name subjects of other namespaces. At admission it must not: the author
            of an overrider may lack the permission to see them.
    """
    kind, name = subject_of(overrider) or ("", "")
    qualified = f"{namespace}/{name}" if namespace else name
    message = f"{kind} {qualified} is not known yet, so nothing could be rendered to check this"
    hint = _suggest_kind(kind, name, cluster=cluster, namespace=namespace, store=store)
    if not hint and every_namespace:
        hint = _suggest_namespace(kind, name, cluster=cluster, namespace=namespace, store=store)
    if not hint:
        names = list(_list_names(GroupKind(GROUP, kind), cluster=cluster, namespace=namespace, store=store))
        hint = suggestion(name, names) if len(names) <= _MAX_COMPARED else ""
    return Finding("unknown-subject", "subject.name", message + hint)


def _suggest_kind(kind: str, name: str, *, cluster: str, namespace: str, store: StoreView) -> str:
    for other in sorted(SUBJECT_KINDS):
        if other.kind != kind and store.get(cluster, other, namespace, name) is not None:
            return f"; {other.kind} {name} exists: did you mean kind {other.kind}?"
    return ""


def _suggest_namespace(kind: str, name: str, *, cluster: str, namespace: str, store: StoreView) -> str:
    namespaces = sorted(
        document["metadata"].get("namespace") or ""
        for document in store.each(cluster, GroupKind(GROUP, kind))
        if document["metadata"]["name"] == name
    )
    if not namespaces:
        return ""
    where = f"namespace {namespaces[0]}" if namespaces[0] else "no namespace"
    own = f"namespace {namespace}" if namespace else "no namespace"
    return f"; {kind} {name} is in {where} and the overrider in {own}: an overrider must be in its subject's namespace"


def _list_names(group_kind: GroupKind, *, cluster: str, namespace: str, store: StoreView) -> Iterator[str]:
    for document in store.each(cluster, group_kind):
        if (document["metadata"].get("namespace") or "") == namespace:
            yield document["metadata"]["name"]


# A suggestion takes some 50 µs, so the rules take at most 50 ms for any overrider.
_MAX_FINDINGS: Final = 1000
_FIELD: Final = re.compile(r"((?:entries|subject)[^:]*): ", re.ASCII)


class OverriderInputs(NamedTuple):
    """The objects that the findings about an overrider depend on, at one moment."""

    subject: Subject | None
    pools: SubjectPools | None
    """The node pools of the subject."""
    rivals: tuple[Finding, ...]
    """The findings about other overriders of the subject."""
    effects: tuple[Finding, ...]
    """The findings about the subject, if the overrider has no mistake of its own."""


def check_overrider(
    overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView, every_namespace: bool = False
) -> tuple[Finding, ...]:
    """Return all errors and warnings about an overrider.

    Args:
        overrider: An object with metadata.
        cluster: Its logical cluster, ``""`` for a plain one.
        namespace: Its namespace.
        store: The other overriders, the subject and the node pools.
        every_namespace: Whether messages may name subjects of other namespaces.
    """
    inputs = read_inputs(overrider, cluster=cluster, namespace=namespace, store=store, every_namespace=every_namespace)
    return judge_overrider(overrider, inputs)


def read_inputs(
    overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView, every_namespace: bool = False
) -> OverriderInputs:
    """Return the objects that the findings about an overrider depend on; arguments as for `check_overrider`."""
    rivals = tuple(_check_binding(overrider, cluster=cluster, namespace=namespace, store=store))
    subject = find_subject(overrider, cluster=cluster, namespace=namespace, store=store)
    pools = None if subject is None else pools_to_check(subject, store, overrider)
    kind, _ = subject_of(overrider) or ("", "")
    effects = [*check_controller(kind, cluster=cluster, store=store)]
    if subject is None:
        effects.append(
            unknown_subject(
                overrider, cluster=cluster, namespace=namespace, store=store, every_namespace=every_namespace
            )
        )
    return OverriderInputs(subject, pools, rivals, tuple(effects))


def judge_overrider(overrider: JSONObject, inputs: OverriderInputs) -> tuple[Finding, ...]:
    """Return all errors and warnings about an overrider. It takes long, and reads nothing that changes.

    The rules for the subject and the entries come first. If they find no error, the overrider is rendered for each node
    pool of its subject.
    """
    findings = [*check_rules(overrider), *inputs.rivals]
    if any(finding.level == "error" and finding.field.startswith(("entries", "subject")) for finding in findings):
        return tuple(findings)
    findings += inputs.effects
    if inputs.subject is not None and inputs.pools is not None:
        findings += check_fit(overrider, inputs.subject, inputs.pools, known=findings)
    return tuple(findings)


def pools_to_check(subject: Subject, store: NodePoolView, overrider: JSONObject) -> SubjectPools:
    """Return the node pools of a subject, with the findings that do not depend on its overrider."""
    return known_pools(subject, store, overriders=(overrider,))._replace(
        effects=tuple(check_node_pools(subject, store=store))
    )


def check_rules(overrider: JSONObject) -> list[Finding]:
    """Return the findings of the rules that need no subject, at most `_MAX_FINDINGS`."""
    return [*islice(schema_and_selector_rules.check_overrider(overrider), _MAX_FINDINGS)]


def _check_binding(overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView) -> Iterator[Finding]:
    subject = subject_of(overrider)
    if subject is None:
        return
    kind, name = subject
    bound = overriders_of(store, cluster=cluster, namespace=namespace, group_kind=GroupKind(GROUP, kind), name=name)
    own_name = overrider["metadata"].get("name")
    others = [other["metadata"]["name"] for other in bound if other["metadata"]["name"] != own_name]
    if others:
        message = (
            f"unable to bind multiple yurtappoverriders to one subject resource {name} in namespace {namespace}, "
            f"{others[0]} already exists"
        )
        yield Finding("duplicate", "subject.name", message)


def check_fit(
    overrider: JSONObject, subject: Subject, pools: SubjectPools, *, known: Sequence[Finding]
) -> list[Finding]:
    """Return the findings of rendering the overrider for each node pool of its subject.

    Args:
        overrider: An overrider of a valid shape.
        subject: Its subject.
        pools: The node pools of the subject.
        known: The findings without the subject, which are not reported again.
    """
    dry_run = dry_run_overrider(overrider, subject, pools.names, node_pools=pools.node_pools)
    unused = {finding.field.removesuffix(".pools") for finding in known if finding.code == "unused-entry"}
    of_pools = check_pools(overrider, subject, pools, unused=unused)
    return [
        *(Finding("does-not-fit", cause.field, cause.message) for cause in dry_run.causes),
        *pools.effects,
        *check_template(subject.group_kind, subject.document),
        *of_pools,
        *map(_to_finding, dry_run.warnings),
    ]


def _to_finding(remark: Remark) -> Finding:
    """Return a warning of the dry run as a finding. Its text begins with the path in the overrider, if it has one."""
    field = _FIELD.match(remark.text)
    return Finding(remark.code, field[1] if field else "", remark.text[field.end() if field else 0 :])
