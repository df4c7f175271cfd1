"""Admission of YurtAppOverriders: defaults, validation, and the dry runs at kube-apiserver that follow it.

Source: OpenYurt, pkg/yurtmanager/webhook/yurtappoverrider/v1alpha1 (v1.4.4).
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.engines.overrider.rollout.rollout_warning import find_rollout
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.missing_pools import SubjectPools
from fleethook.engines.overrider.rules.schema_and_binding_rules import (
    check_fit,
    check_immutable_fields,
    check_rules,
    judge_overrider,
    pools_to_check,
    read_inputs,
    read_name,
)
from fleethook.engines.overrider.subject.bound_overriders import overriders_of
from fleethook.engines.overrider.subject.subject_and_pools import NodePools, Subject
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, StatusCause
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import cluster_of
from fleethook.model.openyurt import API_VERSION, SUBJECT_KINDS, SUBJECT_VERSIONS, YURT_APP_OVERRIDER

# kubectl prints every warning; more than these hide each other.
_MAX_FINDINGS: Final = 50
_POOLS: Final = re.compile(r"^node pools? [^:]*: | \(node pools? [^()]*\)$")


def validate_subject(request: AdmissionRequest, *, store: StoreView) -> Response | Callable[[], Response]:
    """Answer the review of a YurtAppSet or YurtAppDaemon with the entries of its overrider that no longer fit.

    Returns a function that checks the entries in a thread.

    Each is a warning. Updates that do not change spec are not checked, and neither are subjects without an overrider.

    Args:
        request: The review.
        store: The overriders and node pools.
    """
    answer = admission.not_for_review(request, sorted(SUBJECT_KINDS))
    if answer is not None:
        return answer
    document, old = request.object, request.old_object
    is_unchanged = request.operation == "UPDATE" and as_object(old).get("spec") == document.get("spec")
    kind = GroupKind(request.kind.group, request.kind.kind)
    is_known_version = request.kind.version in SUBJECT_VERSIONS.get(kind, ())
    if is_unchanged or not is_known_version or not isinstance(document.get("spec"), dict):
        return admission.allowed()
    key = key_of_subject(request)
    bound = overriders_of(store, key)
    if not bound:
        return admission.allowed()
    stored = store.get(*key)
    version = f"{request.kind.group}/{request.kind.version}"
    if stored is not None and stored["apiVersion"] != version:
        name = f"YurtAppOverrider {key.namespace}/{bound[0]['metadata']['name']}"
        text = f"not checked: {name} is rendered from {stored['apiVersion']}, and this edit is in {version}"
        return admission.allowed(warnings=[text])
    node_pools = NodePools(store, key.cluster)
    return partial(_compare_edit, bound[0], key, document, old, node_pools=node_pools)


def key_of_subject(request: AdmissionRequest) -> ObjectKey:
    """Return the key of the subject under review."""
    document, kind = request.object, GroupKind(request.kind.group, request.kind.kind)
    return ObjectKey(cluster_of(document), kind, request.namespace, request.name or _get_name(document))


def _compare_edit(
    overrider: JSONObject, key: ObjectKey, document: JSONObject, old: JSON, *, node_pools: NodePools
) -> Response:
    edited, stored = (read_subject(key, finding, node_pools, overrider) for finding in (document, old))
    findings = _find_misfits(overrider, edited)
    before = {_name_without_pools(finding) for finding in (_find_misfits(overrider, stored) if findings else ())}
    caused = [finding for finding in findings if _name_without_pools(finding) not in before]
    # Errors are reported at every edit, warnings only at the edit that causes them.
    reported = [finding for finding in findings if finding.level == "error" or finding in caused]
    return admission.allowed(warnings=[describe_finding(overrider, finding) for finding in reported[:_MAX_FINDINGS]])


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


def _find_misfits(overrider: JSONObject, fit: tuple[Subject, SubjectPools] | None) -> list[Finding]:
    if fit is None:
        return []
    known = check_rules(overrider)
    if any(finding.level == "error" for finding in known):
        return []  # The overrider has mistakes of its own; its status reports them.
    return check_fit(overrider, *fit, known=known)


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


# kubectl prints every cause, and events keep them; more than these hide each other.
_MAX_CAUSES: Final = 50


def default_overrider(request: AdmissionRequest) -> Response:
    """Set the apiVersion of a subject that has none, because owner references are compared with it."""
    overrider = request.object
    if (refusal := _refuse_other_kinds(request, overrider)) is not None:
        return refusal
    subject = overrider.get("subject")
    if request.operation not in ("CREATE", "UPDATE") or not isinstance(subject, dict) or subject.get("apiVersion"):
        return admission.allowed()
    return admission.patched([{"op": "add", "path": "/subject/apiVersion", "value": API_VERSION}])


def _refuse_other_kinds(request: AdmissionRequest, overrider: JSON) -> Response | None:
    kind = request.kind.kind or as_object(overrider).get("kind")
    if kind != YURT_APP_OVERRIDER.kind:
        return admission.errored(f"expected a YurtAppOverrider but got a {kind or 'nothing'}")
    if request.operation != "DELETE" and not isinstance(as_object(overrider).get("metadata"), dict):
        return admission.errored("request.object is not an object with metadata")
    return None


def validate_overrider(
    request: AdmissionRequest,
    *,
    store: StoreView,
    warning_share: float = 1.0,
    conflicts: Callable[[], Sequence[str]] = tuple,
) -> Response | Callable[[], Response]:
    """Answer the review of a YurtAppOverrider with all findings, not only the first one.

    Returns a function that judges a changed overrider in a thread. Updates that change neither subject nor entries are
    admitted, and so are all updates of an overrider that is being deleted. A deletion, after which the controller
    reverts the workloads to their template, gets a warning at most.

    Args:
        request: The review.
        store: The other overriders, the subject and the NodePools.
        warning_share: The share of the subject's workloads above which a rollout is reported. 1 reports none.
        conflicts: Returns warnings about the cluster's treatment of overriders, for each review.
    """
    decided, further = _judge_request(request, store=store, warning_share=warning_share), tuple(conflicts())

    def warn(response: Response) -> Response:
        return msgspec.structs.replace(response, warnings=(*response.warnings, *further))

    return warn(decided) if isinstance(decided, Response) else lambda: warn(decided())


def _judge_request(
    request: AdmissionRequest, *, store: StoreView, warning_share: float
) -> Response | Callable[[], Response]:
    overrider = request.object
    if (refusal := _refuse_other_kinds(request, overrider)) is not None:
        return refusal
    if request.operation == "DELETE" and not request.sub_resource:
        return _warn_of_deletion(request, store=store, warning_share=warning_share)
    if not changes_overrider(request):
        return admission.allowed()
    namespace = request.namespace or overrider["metadata"].get("namespace") or ""
    inputs = read_inputs(overrider, cluster=cluster_of(overrider), namespace=namespace, store=store)
    warn = find_rollout(request, store=store, share=warning_share)

    def judge() -> Response:
        findings = judge_overrider(overrider, inputs)
        old = as_object(request.old_object)
        changed = check_immutable_fields(old, overrider) if request.operation == "UPDATE" else ()
        causes = [finding.cause() for finding in (*changed, *findings) if finding.level == "error"]
        warnings = _shorten([finding.text for finding in findings if finding.level == "warning"])
        if causes:
            return refuse_overrider(overrider, namespace, causes, warnings)
        return admission.allowed(warnings=[*warn(), *warnings])

    return judge


def changes_overrider(request: AdmissionRequest) -> bool:
    """Return whether a review creates an overrider, or changes its subject or its entries."""
    if request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return False
    if request.operation == "CREATE":
        return True
    overrider, old = as_object(request.object), as_object(request.old_object)
    if as_object(overrider.get("metadata")).get("deletionTimestamp"):
        return False
    names = ("subject", "entries")
    return any(old.get(name) != overrider.get(name) for name in names) or read_name(old) != read_name(overrider)


def _warn_of_deletion(
    request: AdmissionRequest, *, store: StoreView, warning_share: float
) -> Response | Callable[[], Response]:
    if not isinstance(as_object(request.old_object).get("metadata"), dict):
        return admission.allowed()
    warn = find_rollout(request, store=store, share=warning_share)
    return lambda: admission.allowed(warnings=warn())


def _shorten(warnings: list[str]) -> list[str]:
    more = len(warnings) - _MAX_CAUSES
    return warnings if more <= 0 else [*warnings[:_MAX_CAUSES], f"and {more} more warnings"]


def refuse_overrider(
    overrider: JSONObject, namespace: str, causes: Sequence[StatusCause], warnings: Sequence[str]
) -> Response:
    """Return the refusal of an overrider with all causes."""
    shown = causes[:_MAX_CAUSES]
    listed = "; ".join(f"{cause.field}: {cause.message}" for cause in shown)
    more = f"; and {len(causes) - len(shown)} more" if len(causes) > len(shown) else ""
    name = overrider["metadata"].get("name") or overrider["metadata"].get("generateName", "")
    return admission.invalid(
        f"YurtAppOverrider {namespace or 'default'}/{name} is invalid: {listed}{more}", shown, warnings=warnings
    )
