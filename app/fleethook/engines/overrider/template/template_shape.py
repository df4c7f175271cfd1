"""Checks the shape that rendering relies on: the objects and lists of a Deployment or StatefulSet.

OpenYurt's CustomResourceDefinitions do not check templates and the patches of pools. No apiserver checks manifests on
the command line, and a review may come from another caller. Rendering checks the values against Kubernetes' schema.
"""

from typing import Any

import msgspec

from fleethook.model.json import JSONObject

_Objects = list[dict[str, Any]]


class _Shape(msgspec.Struct, rename="camel"):
    """Common settings: JSON names, unknown members allowed."""


class _Metadata(_Shape):
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class _Term(_Shape):
    match_expressions: _Objects | None = None
    match_fields: _Objects | None = None


class _Required(_Shape):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(_Shape):
    required_during_scheduling_ignored_during_execution: _Required | None = None


class _Affinity(_Shape):
    node_affinity: _NodeAffinity | None = None


class _PodSpec(_Shape):
    containers: _Objects | None = None
    init_containers: _Objects | None = None
    volumes: _Objects | None = None
    tolerations: _Objects | None = None
    node_selector: dict[str, Any] | None = None
    affinity: _Affinity | None = None


class _PodTemplate(_Shape):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None


class _Selector(_Shape):
    match_labels: dict[str, Any] | None = None


class _WorkloadSpec(_Shape):
    selector: _Selector | None = None
    template: _PodTemplate | None = None


class _Workload(_Shape):
    metadata: _Metadata
    spec: _WorkloadSpec


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
msgspec.json.Decoder(_Workload)


def shape_problem(workload: JSONObject) -> str | None:
    """Return the first member of a workload with a wrong shape and its path, None if the shape is right."""
    try:
        msgspec.convert(workload, _Workload)
    except msgspec.ValidationError as error:
        return str(error)
    return None
