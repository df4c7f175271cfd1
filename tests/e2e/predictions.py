"""Compares the output of ``fleethook diff`` with the outcome of the edit in a cluster, workload by workload."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fleethook.model.openyurt import TRIGGER_ANNOTATION
from tests.cli.commands import run_command
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.openyurt import POOL_LABEL
from tests.e2e.workloads import APPS

JSONObject = dict[str, Any]
_REVISION = "deployment.kubernetes.io/revision"
# Written at each touch and by the Deployment controller; no effect of their own.
_IGNORED = frozenset({TRIGGER_ANNOTATION, _REVISION})


class Predicted(NamedTuple):
    """One workload in the output of the command."""

    effect: str
    pods: int
    replicas: int
    notes: tuple[str, ...]


class Prediction(NamedTuple):
    """The output of the command.

    Attributes:
        summary: The totals on one line.
        workloads: The existing workloads of the affected subjects, by kind and name.
        created: The node pools that get a workload.
        stderr: The findings.
    """

    summary: str
    workloads: dict[tuple[str, str], Predicted]
    created: set[str]
    stderr: str


class State(NamedTuple):
    """A workload in the cluster.

    Attributes:
        template: The pod template.
        replicas: The requested replicas.
        spec: The other members of the spec.
        metadata: Labels and annotations.
        generation: The number of changes of the spec.
        rollouts: The number of ReplicaSets that the Deployment controller has switched to, or the StatefulSet's revision.
    """

    pool: str
    template: JSONObject
    replicas: int
    spec: JSONObject
    metadata: JSONObject
    generation: int
    rollouts: str


def predict(plane: ControlPlane, directory: Path, *documents: JSONObject) -> Prediction:
    """Run the command with edited objects, and check its exit code."""
    arguments = list_source_arguments(plane, directory, documents, option="-f")
    found = run_command("diff", *arguments)
    assert found.returncode in (0, 1), found.stderr
    output = json.loads(found.stdout)
    listed = [one for subject in output["subjects"] for one in subject["workloads"]]
    changes = any(one["effect"] != "unchanged" for one in listed)
    assert found.returncode == changes or "error" in found.stderr, found.stderr
    return Prediction(
        summary=output["summary"],
        workloads={
            (one["kind"], one["name"]): Predicted(
                one["effect"], one["pods"], one["replicas"]["after"], tuple(one["notes"])
            )
            for one in listed
            if one["name"]
        },
        created={one["pool"] for one in listed if one["effect"] == "created"},
        stderr=found.stderr,
    )


def list_source_arguments(
    plane: ControlPlane, directory: Path, documents: Sequence[JSONObject], *, option: str
) -> list[str]:
    """Return the arguments of a command with the objects of a cluster, and with edits in a file that an option names."""
    arguments = ["--kubeconfig", str(plane.kubeconfig("diff")), "--output", "json"]
    if documents:
        path = directory / "edit.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
        arguments += [option, str(path)]
    return arguments


def read_states(api: Api, namespace: str, *subjects: str) -> dict[tuple[str, str], State]:
    """Return the workloads of subjects, by kind and name."""
    found = {}
    for plural, kind in (("deployments", "Deployment"), ("statefulsets", "StatefulSet")):
        for item in api[f"{APPS}/namespaces/{namespace}/{plural}"]["items"]:
            metadata, spec = item["metadata"], dict(item["spec"])
            if all(owner["name"] not in subjects for owner in metadata.get("ownerReferences", [])):
                continue
            annotations = metadata.get("annotations", {})
            rollouts = annotations.get(_REVISION) or item.get("status", {}).get("updateRevision", "")
            found[kind, metadata["name"]] = State(
                pool=metadata["labels"].get(POOL_LABEL, ""),
                template=spec.pop("template"),
                replicas=spec.pop("replicas"),
                spec=spec,
                metadata={
                    "labels": metadata["labels"],
                    "annotations": {name: text for name, text in annotations.items() if name not in _IGNORED},
                },
                generation=metadata["generation"],
                rollouts=rollouts,
            )
    return found


def observe(before: State, after: State) -> str:
    """Return the effect that a workload has had, named as the command names it."""
    if before.template != after.template:
        return "rolls"
    if before.rollouts != after.rollouts:
        return "rolls"  # A resumed Deployment.
    if before.replicas != after.replicas:
        return "scales"
    if before.spec != after.spec:
        return "spec"
    if before.metadata != after.metadata:
        return "metadata"
    return "unchanged"


def find_mismatches(
    prediction: Prediction, before: dict[tuple[str, str], State], after: dict[tuple[str, str], State]
) -> list[str]:
    """Return the workloads whose outcome differs from the prediction, one line each."""
    found = []
    for key, state in before.items():
        predicted = prediction.workloads.get(key)
        effect = "unchanged" if predicted is None else predicted.effect
        outcome = "deleted" if key not in after else observe(state, after[key])
        if effect != outcome:
            found.append(f"{key}: predicted {effect}, was {outcome}")
        if outcome == "deleted":
            continue
        now = after[key]
        if predicted is not None and predicted.replicas != now.replicas:
            found.append(f"{key}: predicted {predicted.replicas} replicas, has {now.replicas}")
        # A pod template that differs makes a new ReplicaSet at once, unless the Deployment is paused.
        if (outcome == "rolls" and not now.spec.get("paused")) != (state.rollouts != now.rollouts):
            found.append(f"{key}: {outcome}, ReplicaSet {state.rollouts} → {now.rollouts}")
        # Annotations of a Deployment, not of a StatefulSet, change its generation (pkg/registry/apps/deployment).
        if outcome != "metadata" and (outcome == "unchanged") != (state.generation == now.generation):
            found.append(f"{key}: {outcome}, generation {state.generation} → {now.generation}")
    created = {state.pool for key, state in after.items() if key not in before}
    if created != prediction.created:
        found.append(f"predicted new workloads in {sorted(prediction.created)}, found {sorted(created)}")
    return found
