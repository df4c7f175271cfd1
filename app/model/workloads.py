"""The shape of Deployments and StatefulSets, as far as a rendered one is checked before it is sent.

A wrong type in a rendered workload is found by the apiserver too, but there it fails somebody's rollout with a decode
error that does not name the overrider. Members not listed here pass unchecked. Source: k8s.io/api/apps/v1 and core/v1.
"""

from typing import Annotated, Any, Final

import msgspec

from app.model.json import JSONObject

Count = Annotated[int, msgspec.Meta(ge=0)]
Name = Annotated[str, msgspec.Meta(min_length=1)]


class _Shape(msgspec.Struct, rename="camel"):
    """Common settings: JSON names, unknown members allowed."""


class EnvVar(_Shape):
    """``core/v1.EnvVar``."""

    name: Name
    value: str | None = None
    value_from: dict[str, Any] | None = None


class ContainerPort(_Shape):
    """``core/v1.ContainerPort``."""

    container_port: int
    name: str | None = None
    protocol: str | None = None
    host_port: int | None = None


class VolumeMount(_Shape):
    """``core/v1.VolumeMount``."""

    name: Name
    mount_path: Name
    sub_path: str | None = None
    read_only: bool | None = None


class Resources(_Shape):
    """``core/v1.ResourceRequirements``; a quantity may be written as a number."""

    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class Container(_Shape):
    """``core/v1.Container``."""

    name: Name
    image: str | None = None
    image_pull_policy: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str | None = None
    env: list[EnvVar] | None = None
    env_from: list[dict[str, Any]] | None = None
    ports: list[ContainerPort] | None = None
    volume_mounts: list[VolumeMount] | None = None
    resources: Resources | None = None
    security_context: dict[str, Any] | None = None
    liveness_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None
    startup_probe: dict[str, Any] | None = None
    lifecycle: dict[str, Any] | None = None


class Volume(msgspec.Struct):
    """``core/v1.Volume``, without its source."""

    name: Name


class PodSpec(_Shape):
    """``core/v1.PodSpec``."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[dict[str, Any]] | None = None
    affinity: dict[str, Any] | None = None
    security_context: dict[str, Any] | None = None
    image_pull_secrets: list[dict[str, Any]] | None = None
    host_aliases: list[dict[str, Any]] | None = None
    node_name: str | None = None
    service_account_name: str | None = None
    priority_class_name: str | None = None
    restart_policy: str | None = None
    dns_policy: str | None = None
    host_network: bool | None = None
    priority: int | None = None
    termination_grace_period_seconds: int | None = None


class Metadata(_Shape):
    """``metav1.ObjectMeta``."""

    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodTemplate(_Shape):
    """``core/v1.PodTemplateSpec``."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None


class WorkloadSpec(_Shape):
    """What ``apps/v1.DeploymentSpec`` and ``apps/v1.StatefulSetSpec`` have between them."""

    replicas: Count | None = None
    selector: dict[str, Any] | None = None
    template: PodTemplate | None = None
    strategy: dict[str, Any] | None = None
    update_strategy: dict[str, Any] | None = None
    min_ready_seconds: Count | None = None
    revision_history_limit: Count | None = None
    progress_deadline_seconds: int | None = None
    paused: bool | None = None
    service_name: str | None = None


class Workload(_Shape):
    """A Deployment or StatefulSet."""

    metadata: Metadata
    spec: WorkloadSpec


_UNIQUE: Final = ("containers", "init_containers", "volumes")


def check_workload(document: JSONObject) -> str | None:
    """Return what is wrong with the shape of a rendered workload, with its path; None if nothing is."""
    try:
        workload = msgspec.convert(document, Workload)
    except msgspec.ValidationError as error:
        return str(error)
    pod_spec = workload.spec.template.spec if workload.spec.template else None
    for member in _UNIQUE:
        names = [element.name for element in (getattr(pod_spec, member, None) or ())]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            member_name = "initContainers" if member == "init_containers" else member
            return f"{member_name} has more than one element named {min(twice)!r} - at `$.spec.template.spec`"
    return None
