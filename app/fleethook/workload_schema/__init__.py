"""Checks and normalizes Deployments and StatefulSets like kube-apiserver.

The package data is generated from a running kube-apiserver and from the Go types (schemas/workloads.py).
"""

from fleethook.workload_schema.formats_and_messages import WorkloadFinding
from fleethook.workload_schema.stored_form_and_aliases import DecodedParts, decode_workload, normalize_workload
from fleethook.workload_schema.workload_check import check_decoded, check_workload

__all__ = [
    "DecodedParts",
    "WorkloadFinding",
    "check_decoded",
    "check_workload",
    "decode_workload",
    "normalize_workload",
]
