"""What OpenYurt's controllers write, by version of the API: written out here, not by the code under test."""

import copy
import hashlib
import json
from typing import Any, NamedTuple

from app.model.merge_keys import WORKLOAD
from app.patch import strategic_merge

GROUP = "apps.openyurt.io"
POOL_LABEL = f"{GROUP}/pool-name"
REVISION_LABEL = f"{GROUP}/controller-revision-hash"
PATCH_ANNOTATION = f"{GROUP}/patch"

JSONObject = dict[str, Any]
KINDS = {"Deployment": "deploymentTemplate", "StatefulSet": "statefulSetTemplate"}
# Members that the controller copies from the template; one that the template lacks is written as its zero value, which an
# apiserver takes for absent. Other members of the spec stay as they are.
_COPIED = {
    "Deployment": ("strategy", "minReadySeconds", "paused", "progressDeadlineSeconds"),
    "StatefulSet": ("updateStrategy", "podManagementPolicy", "serviceName", "volumeClaimTemplates"),
}


class Release(NamedTuple):
    """Where releases of OpenYurt behave differently, whatever the version of the API.

    Attributes:
        retries: A refused write is tried again after a second; otherwise not before something else changes.
        compares_replicas: A workload whose replicas differ from the topology is written.
        keeps_first_revision: status.currentRevision stays as it was first set (openyurt issue 1879).
        status_after_refusal: status.observedGeneration is set even if a workload could not be written.
    """

    retries: bool
    compares_replicas: bool
    keeps_first_revision: bool
    status_after_refusal: bool


V1_4 = Release(retries=False, compares_replicas=True, keeps_first_revision=True, status_after_refusal=True)
V1_5 = Release(retries=True, compares_replicas=False, keeps_first_revision=False, status_after_refusal=False)


class V1Alpha1:
    """YurtAppSet v1alpha1 (OpenYurt 1.4.4: adapter.DeploymentAdapter and StatefulSetAdapter, ApplyPoolTemplate)."""

    version = f"{GROUP}/v1alpha1"
    plural = "yurtappsets"

    def path(self, namespace: str) -> str:
        return f"/apis/{self.version}/namespaces/{namespace}/{self.plural}"

    def owner_reference(self, subject: JSONObject) -> JSONObject:
        return {
            "apiVersion": self.version,
            "kind": subject["kind"],
            "name": subject["metadata"]["name"],
            "uid": subject["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def templates(self, subject: JSONObject) -> JSONObject:
        """Return the member with deploymentTemplate or statefulSetTemplate."""
        found: JSONObject = subject["spec"]["workloadTemplate"]
        return found

    def kind(self, subject: JSONObject) -> str:
        return next(kind for kind, member in KINDS.items() if self.templates(subject).get(member))

    def template(self, subject: JSONObject) -> JSONObject:
        found: JSONObject = self.templates(subject)[KINDS[self.kind(subject)]]
        return found

    def pools(self, subject: JSONObject) -> dict[str, JSONObject]:
        """Return the pools that have a workload, by name."""
        return {pool["name"]: pool for pool in subject["spec"].get("topology", {}).get("pools", [])}

    def revision(self, subject: JSONObject) -> str:
        """Return the revision label: it changes with the template and with a pool's patch, not with replicas."""
        patches = {name: pool.get("patch") for name, pool in self.pools(subject).items()}
        return self._hash(subject, [self.templates(subject), patches])

    def _hash(self, subject: JSONObject, content: Any) -> str:
        text = json.dumps(content, sort_keys=True).encode()
        return f"{subject['metadata']['name']}-{hashlib.sha256(text).hexdigest()[:10]}"

    def replicas(self, subject: JSONObject, pool: str) -> int:
        return int(self.pools(subject)[pool].get("replicas") or 0)

    def outdated(self, subject: JSONObject, pool: str, workload: JSONObject, release: Release) -> bool:
        """Return whether a workload is written; nothing else of it is compared (managePools)."""
        metadata = workload["metadata"]
        if metadata.get("labels", {}).get(REVISION_LABEL) != self.revision(subject):
            return True
        if metadata.get("annotations", {}).get(PATCH_ANNOTATION, "") != self._patch_text(subject, pool):
            return True
        return release.compares_replicas and workload["spec"].get("replicas", 1) != self.replicas(subject, pool)

    def _patch_text(self, subject: JSONObject, pool: str) -> str:
        patch = self.pools(subject)[pool].get("patch")
        return json.dumps(patch, sort_keys=True, separators=(",", ":")) if patch else ""

    def apply(self, subject: JSONObject, pool: str, workload: JSONObject | None = None) -> JSONObject:
        """Return what is written for a pool: over the present ``workload``, or a new one."""
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
        # Members are added and replaced, never removed.
        metadata["annotations"] = {**metadata.get("annotations", {}), **template.get("annotations", {})}
        metadata["annotations"][PATCH_ANNOTATION] = self._patch_text(subject, pool)
        metadata["generateName"] = f"{subject['metadata']['name']}-{pool}-"
        metadata["ownerReferences"] = [self.owner_reference(subject)]

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
        """Bind the pods to the pool's nodes; a pool without expressions gets a term that matches no node, as upstream."""
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
