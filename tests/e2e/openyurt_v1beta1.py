"""The writes of OpenYurt's controller for a YurtAppSet v1beta1, without the code under test.

tests/conformance/openyurt has the answers of OpenYurt's own code; tests/conformance/test_openyurt_form.py compares.
"""

import copy
import json
from typing import Any

from fleethook.patch import PatchError, apply
from tests.e2e.go_decoding import decode_into
from tests.e2e.openyurt import (
    GROUP,
    KINDS,
    POOL_LABEL,
    REVISION_LABEL,
    JSONObject,
    NodePools,
    NotAppliedError,
    Release,
    add_reference,
    owner_reference,
    revision_of,
)

SUBJECT_LABEL = f"{GROUP}/ref-yurtappset"
NODE_POOL_ANNOTATION = f"{GROUP}/ref-nodepool"
NODE_POOL_LABEL = f"{GROUP}/nodepool"
_MAX_PREFIX = 253


class V1Beta1:
    """YurtAppSet v1beta1 (OpenYurt 1.7.0: yurtappset/workloadmanager, DeploymentManager and StatefulSetManager)."""

    version = f"{GROUP}/v1beta1"
    plural = "yurtappsets"
    node_pools_path = f"/apis/{GROUP}/v1beta2/nodepools"

    def path(self, namespace: str) -> str:
        return f"/apis/{self.version}/namespaces/{namespace}/{self.plural}"

    def edit(self, templates: JSONObject) -> JSONObject:
        """Return the merge patch of a subject that merges into the member with its templates."""
        return {"spec": {"workload": {"workloadTemplate": templates}}}

    def templates(self, subject: JSONObject) -> JSONObject:
        """Return the member with deploymentTemplate or statefulSetTemplate."""
        found: JSONObject = subject["spec"]["workload"]["workloadTemplate"]
        return found

    def kind(self, subject: JSONObject) -> str:
        """Return the kind of the workloads; with two templates it is StatefulSet."""
        found = [kind for kind, member in KINDS.items() if self.templates(subject).get(member)]
        if not found:
            raise NotAppliedError("no template")
        return found[-1]

    def template(self, subject: JSONObject) -> JSONObject:
        found: JSONObject = self.templates(subject)[KINDS[self.kind(subject)]]
        return found

    def pools(self, subject: JSONObject, node_pools: NodePools) -> set[str]:
        """Return the pools that have a workload: existing NodePools only."""
        spec = subject["spec"]
        return {
            name
            for name, one in node_pools.items()
            if _is_related(one, spec.get("pools"), spec.get("nodepoolSelector"))
        }

    def revision(self, subject: JSONObject) -> str:
        """Return the revision label: it changes with the template and with every tweak of any pool."""
        return revision_of(subject, subject["spec"]["workload"])

    def claims(self, subject: JSONObject, workload: JSONObject) -> bool:
        """Return whether a workload belongs to a subject by its label; one that lost the label is released."""
        found: str = workload["metadata"].get("labels", {}).get(SUBJECT_LABEL, "")
        return found == subject["metadata"]["name"]

    def outdated(self, subject: JSONObject, pool: str, workload: JSONObject, release: Release) -> bool:
        """Return whether the controller writes a workload; it compares only the revision (classifyWorkloads)."""
        return bool(workload["metadata"].get("labels", {}).get(REVISION_LABEL) != self.revision(subject))

    def status(self, subject: JSONObject, workloads: list[JSONObject]) -> JSONObject:
        """Return status.currentRevision and the counts that the version requires."""
        revision = self.revision(subject)
        updated = [one for one in workloads if one["metadata"].get("labels", {}).get(REVISION_LABEL) == revision]
        ready = [one.get("status", {}) for one in workloads if one.get("status", {}).get("replicas")]
        return {
            "currentRevision": revision,
            "totalWorkloads": len(workloads),
            "updatedWorkloads": len(updated),
            "readyWorkloads": sum(one.get("readyReplicas") == one["replicas"] for one in ready),
        }

    def apply(
        self, subject: JSONObject, pool: str, workload: JSONObject | None = None, *, node_pools: NodePools
    ) -> JSONObject:
        """Return the object to write for a pool, based on the present ``workload`` or new.

        Raises:
            NotAppliedError: OpenYurt's controller reports an error instead.
        """
        made = copy.deepcopy(workload) if workload else {"metadata": {}}
        made |= {"apiVersion": "apps/v1", "kind": self.kind(subject)}
        made.pop("status", None)
        self._apply_metadata(made["metadata"], subject, pool)
        made["spec"] = self._spec(subject, pool)
        return self._tweaked(made, subject, pool, node_pools)

    def _apply_metadata(self, metadata: JSONObject, subject: JSONObject, pool: str) -> None:
        template, name = self.template(subject).get("metadata") or {}, subject["metadata"]["name"]
        own = {REVISION_LABEL: self.revision(subject), POOL_LABEL: pool, SUBJECT_LABEL: name}
        notes = {NODE_POOL_ANNOTATION: pool}
        # The controller adds and replaces members; it removes none.
        metadata["labels"] = {**metadata.get("labels", {}), **(template.get("labels") or {}), **own}
        metadata["annotations"] = {**metadata.get("annotations", {}), **(template.get("annotations") or {}), **notes}
        metadata["namespace"] = subject["metadata"]["namespace"]
        prefix = f"{name}-{pool}-"
        metadata["generateName"] = prefix if len(prefix) <= _MAX_PREFIX else f"{name}-"
        add_reference(metadata, owner_reference(subject, self.version))

    def _spec(self, subject: JSONObject, pool: str) -> JSONObject:
        """Return the template's spec, which replaces the complete spec of the workload."""
        spec: JSONObject = copy.deepcopy(self.template(subject)["spec"])
        if spec.get("selector") is None:
            spec["selector"] = {"matchLabels": {}}
        if "matchLabels" not in spec["selector"]:
            raise NotAppliedError("panic: a selector without matchLabels")
        spec["selector"]["matchLabels"][POOL_LABEL] = pool
        pods = spec["template"].setdefault("metadata", {})
        # Only for a StatefulSet, the labels of the template are also labels of its pods.
        shared = (
            self.template(subject).get("metadata", {}).get("labels", {}) if self.kind(subject) == "StatefulSet" else {}
        )
        own = {POOL_LABEL: pool, REVISION_LABEL: self.revision(subject)}
        pods["labels"] = {**(pods.get("labels") or {}), **shared, **own}
        pod_spec = spec["template"]["spec"]
        pod_spec["nodeSelector"] = {**(pod_spec.get("nodeSelector") or {}), NODE_POOL_LABEL: pool}
        return spec

    def _tweaked(self, workload: JSONObject, subject: JSONObject, pool: str, node_pools: NodePools) -> JSONObject:
        if pool not in node_pools:
            raise NotAppliedError(f'nodepools.apps.openyurt.io "{pool}" not found')
        listed = subject["spec"]["workload"].get("workloadTweaks") or []
        related = [
            one["tweaks"]
            for one in listed
            if _is_related(node_pools[pool], one.get("pools"), one.get("nodepoolSelector"))
        ]
        for tweaks in related:
            _set_items(workload["spec"], tweaks)
        operations = [_operation(one, pool) for tweaks in related for one in tweaks.get("patches") or []]
        return _apply_patches(workload, operations) if operations else workload


def _set_items(spec: JSONObject, tweaks: JSONObject) -> None:
    if tweaks.get("replicas") is not None:
        spec["replicas"] = tweaks["replicas"]
    pods = spec["template"]["spec"]
    for image in tweaks.get("containerImages") or []:
        for container in (*pods.get("containers", []), *pods.get("initContainers", [])):
            if container["name"] == image["name"]:
                container["image"] = image["targetImage"]


def _operation(patch: JSONObject, pool: str) -> JSONObject:
    """Return the JSON Patch operation of a tweak: only its value gets the name of the pool."""
    value = json.dumps(patch.get("value")).replace("{{nodepool-name}}", pool)
    return {"op": patch["operation"], "path": patch["path"], "value": json.loads(value)}


def _apply_patches(workload: JSONObject, operations: list[JSONObject]) -> JSONObject:
    try:
        # A typed object always has a status, to which a patch may add; the apiserver takes none here.
        document = apply({"status": {}, **workload}, operations, dialect="kubernetes")
    except PatchError as error:
        raise NotAppliedError(str(error)) from error
    made: JSONObject = decode_into(workload, document)
    del made["status"]
    return made


def _is_related(node_pool: JSONObject, pools: list[str] | None, selector: JSONObject | None) -> bool:
    """Return whether a NodePool is listed or matches; without a selector none matches, an empty one matches all."""
    metadata = node_pool["metadata"]
    return metadata["name"] in (pools or []) or (
        selector is not None and _matches(selector, metadata.get("labels") or {})
    )


def _matches(selector: JSONObject, labels: dict[str, str]) -> bool:
    expected = selector.get("matchLabels") or {}
    return expected.items() <= labels.items() and all(
        _holds(one, labels) for one in selector.get("matchExpressions") or []
    )


def _holds(expression: JSONObject, labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    verdicts: dict[str, Any] = {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }
    if expression["operator"] not in verdicts:
        raise NotAppliedError(f"{expression['operator']} is no operator")
    return bool(verdicts[expression["operator"]])
