"""Finds members, versions and kinds that an API lacks: those of Kubernetes, OpenYurt, kcp, Karmada and fleethook.

The package data is generated: from a running kube-apiserver, and from the CustomResourceDefinitions of the projects
(schemas/api_schemas.py).
"""

from fleethook.api_schema.served_kinds_and_manifest_fields import (
    CODES,
    NO_DEFINITIONS,
    Definitions,
    SchemaFinding,
    check_kind,
    check_object,
    describe_mistake,
    load_served,
    read_definitions,
)

__all__ = [
    "CODES",
    "NO_DEFINITIONS",
    "Definitions",
    "SchemaFinding",
    "check_kind",
    "check_object",
    "describe_mistake",
    "load_served",
    "read_definitions",
]
