"""Admission of YurtAppSets and YurtAppDaemons: checks that the overrider of a subject still fits after an edit."""

import re
from collections.abc import Sequence
from typing import Final, Literal

from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.engines.overrider.admission.dry_run import Subject
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.pool_rules import SubjectPools
from fleethook.engines.overrider.rules.validation import check_fit, check_rules, pools_to_check
from fleethook.engines.overrider.subject.binding import overriders_of
from fleethook.engines.overrider.subject.subject_parts import NodePools
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, StatusCause
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import cluster_of
from fleethook.model.openyurt import API_VERSION, SUBJECT_KINDS, SUBJECT_VERSIONS
from fleethook.work.pausing import Slice, Work, do_at_once

Policy = Literal["warn", "refuse"]

# kubectl prints every warning; more than these hide each other.
_MAX_FINDINGS: Final = 50
_POOLS: Final = re.compile(r"^node pools? [^:]*: | \(node pools? [^()]*\)$")


def validate_subject(request: AdmissionRequest, *, store: StoreView, policy: Policy) -> Response:
    """Answer the review of a YurtAppSet or YurtAppDaemon as `validate_subject_in_slices` does."""
    return do_at_once(validate_subject_in_slices(request, store=store, policy=policy))


def validate_subject_in_slices(request: AdmissionRequest, *, store: StoreView, policy: Policy) -> Work[Response]:
    """Answer the review of a YurtAppSet or YurtAppDaemon with the entries of its overrider that no longer fit.

    Updates that do not change spec are admitted without a check, and so are subjects without an overrider. The policy
    ``refuse`` denies an edit that breaks an entry. An entry that did not fit before the edit is only a warning, so that
    the subject can still be edited.

    Args:
        request: The review.
        store: The overriders and node pools.
        policy: Whether an edit that breaks an overrider is denied.
    """
    answer = admission.not_for_review(request, sorted(SUBJECT_KINDS))
    if answer is not None:
        return answer
    document = request.object
    # Decoding a subject with 5,000 node pools takes a slice of its own.
    yield
    old = request.old_object
    yield
    is_unchanged = request.operation == "UPDATE" and as_object(old).get("spec") == document.get("spec")
    kind = GroupKind(request.kind.group, request.kind.kind)
    is_known_version = request.kind.version in SUBJECT_VERSIONS.get(kind, ())
    if is_unchanged or not is_known_version or not isinstance(document.get("spec"), dict):
        return admission.allowed()
    yield Slice.READS_STORE
    key = key_of_subject(request)
    bound = overriders_of(store, cluster=key.cluster, namespace=key.namespace, group_kind=kind, name=key.name)
    if not bound:
        return admission.allowed()
    stored = store.get(*key)
    version = f"{request.kind.group}/{request.kind.version}"
    if stored is not None and stored["apiVersion"] != version:
        name = f"YurtAppOverrider {key.namespace}/{bound[0]['metadata']['name']}"
        text = f"not checked: {name} is rendered from {stored['apiVersion']}, and this edit is in {version}"
        return admission.allowed(warnings=[text])
    node_pools = NodePools(store, key.cluster)
    yield Slice.PURE
    return (yield from _compare_edit(bound[0], key, document, old, node_pools=node_pools, policy=policy))


def key_of_subject(request: AdmissionRequest) -> ObjectKey:
    """Return the key of the subject under review."""
    document, kind = request.object, GroupKind(request.kind.group, request.kind.kind)
    return ObjectKey(cluster_of(document), kind, request.namespace, request.name or _get_name(document))


def _compare_edit(
    overrider: JSONObject, key: ObjectKey, document: JSONObject, old: JSON, *, node_pools: NodePools, policy: Policy
) -> Work[Response]:
    edited, stored = (read_subject(key, one, node_pools, overrider) for one in (document, old))
    found = yield from _find_misfits(overrider, edited)
    misfits_before = (yield from _find_misfits(overrider, stored)) if found else []
    before = {_name_without_pools(one) for one in misfits_before}
    caused = [one for one in found if _name_without_pools(one) not in before]
    if policy == "refuse" and any(one.level == "error" for one in caused):
        return refuse_edit(overrider, key, [one for one in caused if one.level == "error"])
    # Errors are reported at every edit, warnings only at the edit that causes them.
    reported = [one for one in found if one.level == "error" or one in caused]
    return admission.allowed(warnings=[describe_finding(overrider, one) for one in reported[:_MAX_FINDINGS]])


def refuse_edit(overrider: JSONObject, key: ObjectKey, errors: Sequence[Finding]) -> Response:
    """Return the refusal of an edit that breaks an overrider."""
    texts = [describe_finding(overrider, one) for one in errors][:_MAX_FINDINGS]
    causes = [StatusCause("spec", text, "FieldValueInvalid") for text in texts]
    message = f"{key.group_kind.kind} {key.namespace}/{key.name} would no longer fit: {'; '.join(texts)}"
    return admission.invalid(message, causes)


def read_subject(
    key: ObjectKey, document: JSON, node_pools: NodePools, overrider: JSONObject
) -> tuple[Subject, SubjectPools] | None:
    """Return a subject of the review with the node pools to check its overrider with.

    None if the document is not an object with metadata.
    """
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return None
    typed = {"apiVersion": API_VERSION, "kind": key.group_kind.kind, **document}
    named = {**typed, "metadata": {"namespace": key.namespace, "name": key.name, **document["metadata"]}}
    subject = Subject(key.group_kind, named, key.cluster)
    return subject, pools_to_check(subject, node_pools, overrider)


def _find_misfits(overrider: JSONObject, fit: tuple[Subject, SubjectPools] | None) -> Work[list[Finding]]:
    if fit is None:
        return []
    known = yield from check_rules(overrider)
    if any(finding.level == "error" for finding in known):
        return []  # The overrider has mistakes of its own; its status reports them.
    return (yield from check_fit(overrider, *fit, known=known))


def _name_without_pools(finding: Finding) -> tuple[str, str, str]:
    """Return the parts of a finding that do not name node pools."""
    return finding.code, finding.field, _POOLS.sub("", finding.message)


def describe_finding(overrider: JSONObject, finding: Finding) -> str:
    """Return the text of a finding with the name of its overrider."""
    metadata = overrider["metadata"]
    return f"YurtAppOverrider {metadata.get('namespace') or 'default'}/{metadata['name']}: {finding.text}"


def _get_name(document: JSONObject) -> str:
    metadata = document["metadata"]
    return str(metadata.get("name") or metadata.get("generateName") or "")
