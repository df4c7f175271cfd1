"""Completes the admission of overriders and subjects with the answers of kube-apiserver to dry runs."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.admission.dry_run import Subject, find_subject
from fleethook.engines.overrider.admission.overrider_admission import changes_overrider, refuse_overrider
from fleethook.engines.overrider.admission.server_dry_run import ServerDryRun, select_trials
from fleethook.engines.overrider.admission.subject_admission import (
    Policy,
    describe_finding,
    key_of_subject,
    read_subject,
    refuse_edit,
)
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.validation import pools_to_check
from fleethook.engines.overrider.subject.binding import overriders_of
from fleethook.engines.overrider.subject.pools import NodePools
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object
from fleethook.model.kcp import cluster_of
from fleethook.work.slice_runner import Slices


class LiveAdmission(NamedTuple):
    """Sends the workloads of admitted overriders and subjects to kube-apiserver."""

    dry_runs: ServerDryRun
    store: StoreView
    slices: Slices
    policy: Policy
    """Whether an edit of a subject that breaks an overrider is denied."""

    async def check_overrider(self, request: AdmissionRequest, response: Response) -> Response | None:
        """Return the answer to the review of an overrider that the rules admit, None if it stays the same."""
        if not (self.dry_runs.limit and response.allowed and changes_overrider(request)):
            return None
        overrider = request.object
        namespace = request.namespace or overrider["metadata"].get("namespace") or ""
        subject = find_subject(overrider, cluster=cluster_of(overrider), namespace=namespace, store=self.store)
        if subject is None:
            return None
        found = await self._check(overrider, subject)
        warnings = (*response.warnings, *(one.text for one in found if one.level == "warning"))
        errors = [one.cause() for one in found if one.level == "error"]
        if errors:
            return refuse_overrider(overrider, namespace, errors, warnings)
        return msgspec.structs.replace(response, warnings=warnings) if found else None

    async def check_subject(self, request: AdmissionRequest, response: Response) -> Response | None:
        """Return the answer to the review of a subject that the rules admit, None if it stays the same."""
        if not (self.dry_runs.limit and response.allowed) or request.operation not in ("CREATE", "UPDATE"):
            return None
        old, document = request.old_object, request.object
        parts = as_object(document)
        is_unchanged = request.operation == "UPDATE" and as_object(old).get("spec") == parts.get("spec")
        if is_unchanged or not all(isinstance(parts.get(name), dict) for name in ("metadata", "spec")):
            return None
        kind = GroupKind(request.kind.group, request.kind.kind)
        key = key_of_subject(request)
        bound = overriders_of(self.store, cluster=key.cluster, namespace=key.namespace, group_kind=kind, name=key.name)
        node_pools = NodePools(self.store, key.cluster)
        edited = read_subject(key, document, node_pools, bound[0]) if bound else None
        if edited is None:
            return None
        found = await self._check(bound[0], edited[0])
        errors = [one for one in found if one.level == "error"]
        stored = read_subject(key, old, node_pools, bound[0])
        known = await self._check(bound[0], stored[0]) if errors and stored is not None else []
        caused = [one for one in errors if one not in known]
        if caused and self.policy == "refuse":
            return refuse_edit(bound[0], key, caused)
        texts = [describe_finding(bound[0], one) for one in found]
        return msgspec.structs.replace(response, warnings=(*response.warnings, *texts)) if texts else None

    async def _check(self, overrider: JSONObject, subject: Subject) -> Sequence[Finding]:
        pools = pools_to_check(subject, self.store, overrider)
        selected = await self.slices.run(select_trials(overrider, subject, pools, limit=self.dry_runs.limit))
        return await self.dry_runs.check(selected, subject)
