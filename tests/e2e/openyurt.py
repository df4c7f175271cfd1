"""The writes of OpenYurt's controllers, by version of the API, without the code under test."""

import copy
import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from fleethook.model.merge_keys import WORKLOAD
from fleethook.patch import strategic_merge

GROUP = "apps.openyurt.io"
POOL_LABEL = f"{GROUP}/pool-name"
REVISION_LABEL = f"{GROUP}/controller-revision-hash"
PATCH_ANNOTATION = f"{GROUP}/patch"

JSONObject = dict[str, Any]
KINDS = {"Deployment": "deploymentTemplate", "StatefulSet": "statefulSetTemplate"}
# Members that the controller copies from the template. It writes the zero value for a member that the template lacks, which
# an apiserver treats as absent. Other members of the spec stay unchanged.
_COPIED = {
    "Deployment": ("strategy", "minReadySeconds", "paused", "progressDeadlineSeconds"),
    "StatefulSet": ("updateStrategy", "podManagementPolicy", "serviceName", "volumeClaimTemplates"),
}


class Release(NamedTuple):
    """Differences between releases of OpenYurt that are independent of the version of the API.

    Attributes:
        retries: The controller retries a refused write after a second and does the others meanwhile. Without this, a
            refused write ends the others, and the next change starts them again.
        compares_replicas: The controller writes a workload whose replicas differ from the topology.
        keeps_first_revision: status.currentRevision keeps its first value (https://github.com/openyurtio/openyurt/issues/1879).
        status_after_refusal: The controller sets status.observedGeneration even if it could not write a workload.
    """

    retries: bool
    compares_replicas: bool
    keeps_first_revision: bool
    status_after_refusal: bool


V1_4 = Release(retries=False, compares_replicas=True, keeps_first_revision=True, status_after_refusal=True)
V1_5 = Release(retries=True, compares_replicas=False, keeps_first_revision=False, status_after_refusal=False)


NodePools = Mapping[str, JSONObject]
"""The NodePools of the cluster, by name."""


class NotAppliedError(Exception):
    """OpenYurt's controller reports an error instead of writing a workload."""


class Form(Protocol):
    """The parts of OpenYurt's controller that depend on the version of the API; `V1Alpha1` describes the methods."""

    version: str
    node_pools_path: str
    """Path of the NodePools, or "" for a version whose pools do not depend on them."""

    def path(self, namespace: str) -> str: ...
    def edit(self, templates: JSONObject) -> JSONObject: ...
    def templates(self, subject: JSONObject) -> JSONObject: ...
    def pools(self, subject: JSONObject, node_pools: NodePools) -> Collection[str]: ...
    def claims(self, subject: JSONObject, workload: JSONObject) -> bool: ...
    def outdated(self, subject: JSONObject, pool: str, workload: JSONObject, release: Release) -> bool: ...
    def apply(
        self, subject: JSONObject, pool: str, workload: JSONObject | None = None, *, node_pools: NodePools
    ) -> JSONObject: ...
    def status(self, subject: JSONObject, workloads: list[JSONObject]) -> JSONObject: ...


def owner_reference(subject: JSONObject, version: str) -> JSONObject:
    return {
        "apiVersion": version,
        "kind": subject["kind"],
        "name": subject["metadata"]["name"],
        "uid": subject["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def add_reference(metadata: JSONObject, reference: JSONObject) -> None:
    """Set the reference to the controller as controller-runtime does, which keeps one for each owner.

    Raises:
        NotAppliedError: Another controller owns the workload.
    """
    present = metadata.get("ownerReferences", [])
    if any(one.get("controller") and not _same_owner(one, reference) for one in present):
        raise NotAppliedError("already owned by another controller")
    if any(_same_owner(one, reference) for one in present):
        metadata["ownerReferences"] = [reference if _same_owner(one, reference) else one for one in present]
    else:
        metadata["ownerReferences"] = [*present, reference]


def _same_owner(one: JSONObject, other: JSONObject) -> bool:
    return _identity(one) == _identity(other)


def _identity(reference: JSONObject) -> tuple[str, str, str]:
    group, _, _ = reference["apiVersion"].rpartition("/")
    return group, reference["kind"], reference["name"]


def labels_of(item: JSONObject) -> dict[str, str]:
    found: dict[str, str] = item["metadata"].get("labels") or {}
    return found


def is_owned_by(uid: str, workload: JSONObject) -> bool:
    return any(owner["uid"] == uid for owner in workload["metadata"].get("ownerReferences", []))


def revision_of(subject: JSONObject, content: Any) -> str:
    """Return a revision label that changes with ``content``."""
    text = json.dumps(content, sort_keys=True).encode()
    return f"{subject['metadata']['name']}-{hashlib.sha256(text).hexdigest()[:10]}"


class V1Alpha1:
    """YurtAppSet v1alpha1 (OpenYurt 1.4.4: adapter.DeploymentAdapter and StatefulSetAdapter, ApplyPoolTemplate)."""

    version = f"{GROUP}/v1alpha1"
    plural = "yurtappsets"
    node_pools_path = ""

    def path(self, namespace: str) -> str:
        return f"/apis/{self.version}/namespaces/{namespace}/{self.plural}"

    def edit(self, templates: JSONObject) -> JSONObject:
        """Return the merge patch of a subject that merges into the member with its templates."""
        return {"spec": {"workloadTemplate": templates}}

    def templates(self, subject: JSONObject) -> JSONObject:
        """Return the member with deploymentTemplate or statefulSetTemplate."""
        found: JSONObject = subject["spec"]["workloadTemplate"]
        return found

    def kind(self, subject: JSONObject) -> str:
        return next(kind for kind, member in KINDS.items() if self.templates(subject).get(member))

    def template(self, subject: JSONObject) -> JSONObject:
        found: JSONObject = self.templates(subject)[KINDS[self.kind(subject)]]
        return found

    def pools(self, subject: JSONObject, node_pools: NodePools | None = None) -> dict[str, JSONObject]:
        """Return the pools that have a workload, by name."""
        return {pool["name"]: pool for pool in subject["spec"].get("topology", {}).get("pools", [])}

    def revision(self, subject: JSONObject) -> str:
        """Return the revision label: it changes with the template only (pkg/controller/yurtappset/revision.go)."""
        return revision_of(subject, self.templates(subject))

    def replicas(self, subject: JSONObject, pool: str) -> int:
        return int(self.pools(subject)[pool].get("replicas") or 0)

    def claims(self, subject: JSONObject, workload: JSONObject) -> bool:
        """Return whether a subject keeps a workload that it owns: always, in this version."""
        return True

    def status(self, subject: JSONObject, workloads: list[JSONObject]) -> JSONObject:
        """Return status.currentRevision."""
        return {"currentRevision": self.revision(subject)}

    def outdated(self, subject: JSONObject, pool: str, workload: JSONObject, release: Release) -> bool:
        """Return whether the controller writes a workload; it compares nothing else (managePools)."""
        metadata = workload["metadata"]
        if metadata.get("labels", {}).get(REVISION_LABEL) != self.revision(subject):
            return True
        if metadata.get("annotations", {}).get(PATCH_ANNOTATION, "") != self._patch_text(subject, pool):
            return True
        return release.compares_replicas and workload["spec"].get("replicas", 1) != self.replicas(subject, pool)

    def _patch_text(self, subject: JSONObject, pool: str) -> str:
        patch = self.pools(subject)[pool].get("patch")
        return json.dumps(patch, sort_keys=True, separators=(",", ":")) if patch else ""

    def apply(
        self, subject: JSONObject, pool: str, workload: JSONObject | None = None, *, node_pools: NodePools | None = None
    ) -> JSONObject:
        """Return the object to write for a pool, based on the present ``workload`` or new."""
        made = copy.deepcopy(workload) if workload else {"metadata": {}, "spec": {}}
        made |= {"apiVersion": "apps/v1", "kind": self.kind(subject)}
        made.pop("status", None)
        self._apply_metadata(made["metadata"], subject, pool)
        self._apply_spec(made["spec"], subject, pool)
        self._place(made["spec"]["template"]["spec"], subject, pool)
        return self._patched(made, subject, pool)

    def _apply_metadata(self, metadata: JSONObject, subject: JSONObject, pool: str) -> None:
        template = self.template(subject).get("metadata", {})
        selector = subject["spec"]["selector"]["matchLabels"]
        own = {REVISION_LABEL: self.revision(subject), POOL_LABEL: pool}
        metadata["namespace"] = subject["metadata"]["namespace"]
        metadata["labels"] = {**metadata.get("labels", {}), **template.get("labels", {}), **selector, **own}
        # The controller adds and replaces members; it removes none.
        metadata["annotations"] = {**metadata.get("annotations", {}), **template.get("annotations", {})}
        metadata["annotations"][PATCH_ANNOTATION] = self._patch_text(subject, pool)
        metadata["generateName"] = f"{subject['metadata']['name']}-{pool}-"
        metadata["ownerReferences"] = [owner_reference(subject, self.version)]

    def _apply_spec(self, spec: JSONObject, subject: JSONObject, pool: str) -> None:
        template = copy.deepcopy(self.template(subject)["spec"])
        for member in _COPIED[self.kind(subject)]:
            _set_or_drop(spec, member, template.get(member))
        _set_or_drop(spec, "revisionHistoryLimit", subject["spec"].get("revisionHistoryLimit"))
        spec["selector"] = {"matchLabels": {**subject["spec"]["selector"]["matchLabels"], POOL_LABEL: pool}}
        spec["replicas"] = self.replicas(subject, pool)
        spec["template"] = template["template"]
        pods = spec["template"].setdefault("metadata", {})
        pods["labels"] = {**pods.get("labels", {}), POOL_LABEL: pool, REVISION_LABEL: self.revision(subject)}

    def _place(self, pod_spec: JSONObject, subject: JSONObject, pool: str) -> None:
        """Bind the pods to the pool's nodes; as upstream, a pool without expressions gets a term that matches no node."""
        config = self.pools(subject)[pool]
        affinity = pod_spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
        terms = required.setdefault("nodeSelectorTerms", []) or required["nodeSelectorTerms"]
        if not terms:
            terms.append({})
        expressions = config.get("nodeSelectorTerm", {}).get("matchExpressions", [])
        for term in terms if expressions else []:
            term["matchExpressions"] = [*term.get("matchExpressions", []), *expressions]
        if tolerations := config.get("tolerations"):
            pod_spec["tolerations"] = [*pod_spec.get("tolerations", []), *tolerations]

    def _patched(self, workload: JSONObject, subject: JSONObject, pool: str) -> JSONObject:
        patch = self.pools(subject)[pool].get("patch")
        if not patch:
            return workload
        patched: JSONObject = strategic_merge(workload, patch, WORKLOAD)
        return patched


def _set_or_drop(spec: JSONObject, member: str, value: Any) -> None:
    if value is None:
        spec.pop(member, None)
    else:
        spec[member] = value
