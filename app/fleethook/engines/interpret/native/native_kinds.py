"""The kinds of Kubernetes that have native interpreters: a table from kind and operation to a function.

Each operation has a module, for example `health`. Each kind has a function there: the health of a
PersistentVolumeClaim is ``health.persistent_volume_claim``.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from fleethook.engines.interpret.interpreter_chain import Handler
from fleethook.engines.interpret.native import aggregate, dependencies, health, replicas, retain_and_prune, status
from fleethook.interpret.interpreter import Function, Question, ask
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation

_Rules = Mapping[Operation, Function]

_WORKLOAD: Final[_Rules] = {
    Operation.REPLICA: replicas.workload,
    Operation.REVISE_REPLICA: replicas.set_member("spec", "replicas"),
    Operation.DEPENDENCY: dependencies.workload,
}

NATIVE: Final[Mapping[GroupVersionKind, _Rules]] = {
    GroupVersionKind("apps", "v1", "Deployment"): {
        **_WORKLOAD,
        Operation.RETAIN: retain_and_prune.deployment,
        Operation.HEALTH: health.deployment,
        Operation.STATUS: status.deployment,
        Operation.AGGREGATE_STATUS: aggregate.deployment,
    },
    GroupVersionKind("apps", "v1", "ReplicaSet"): {
        **_WORKLOAD,
        Operation.HEALTH: health.replica_set,
        Operation.STATUS: status.replica_set,
        Operation.AGGREGATE_STATUS: aggregate.replica_set,
    },
    GroupVersionKind("apps", "v1", "StatefulSet"): {
        **_WORKLOAD,
        Operation.HEALTH: health.stateful_set,
        Operation.DEPENDENCY: dependencies.stateful_set,
        Operation.STATUS: status.stateful_set,
        Operation.AGGREGATE_STATUS: aggregate.stateful_set,
    },
    GroupVersionKind("apps", "v1", "DaemonSet"): {
        Operation.STATUS: status.daemon_set,
        Operation.AGGREGATE_STATUS: aggregate.daemon_set,
        Operation.HEALTH: health.daemon_set,
        Operation.DEPENDENCY: dependencies.workload,
    },
    GroupVersionKind("batch", "v1", "Job"): {
        Operation.REPLICA: replicas.job,
        Operation.REVISE_REPLICA: replicas.set_member("spec", "parallelism"),
        Operation.RETAIN: retain_and_prune.job,
        Operation.STATUS: status.job,
        Operation.AGGREGATE_STATUS: aggregate.job,
        Operation.HEALTH: health.job,
        Operation.DEPENDENCY: dependencies.workload,
    },
    GroupVersionKind("batch", "v1", "CronJob"): {
        Operation.AGGREGATE_STATUS: aggregate.cron_job,
        Operation.HEALTH: health.cron_job,
        Operation.DEPENDENCY: dependencies.cron_job,
    },
    GroupVersionKind("", "v1", "Pod"): {
        Operation.REPLICA: replicas.pod,
        Operation.RETAIN: retain_and_prune.pod,
        Operation.AGGREGATE_STATUS: aggregate.pod,
        Operation.HEALTH: health.pod,
        Operation.DEPENDENCY: dependencies.pod,
    },
    GroupVersionKind("", "v1", "Service"): {
        Operation.RETAIN: retain_and_prune.service,
        Operation.STATUS: status.service,
        Operation.AGGREGATE_STATUS: aggregate.service,
        Operation.HEALTH: health.service,
    },
    GroupVersionKind("", "v1", "ServiceAccount"): {Operation.RETAIN: retain_and_prune.service_account},
    GroupVersionKind("", "v1", "PersistentVolumeClaim"): {
        Operation.RETAIN: retain_and_prune.persistent_volume_claim,
        Operation.AGGREGATE_STATUS: aggregate.persistent_volume_claim,
        Operation.HEALTH: health.persistent_volume_claim,
    },
    GroupVersionKind("", "v1", "PersistentVolume"): {
        Operation.RETAIN: retain_and_prune.persistent_volume,
        Operation.AGGREGATE_STATUS: aggregate.persistent_volume,
        Operation.DEPENDENCY: dependencies.persistent_volume,
    },
    GroupVersionKind("", "v1", "Secret"): {Operation.RETAIN: retain_and_prune.secret},
    GroupVersionKind("networking.k8s.io", "v1", "Ingress"): {
        Operation.AGGREGATE_STATUS: aggregate.ingress,
        Operation.HEALTH: health.ingress,
        Operation.DEPENDENCY: dependencies.ingress,
    },
    GroupVersionKind("policy", "v1", "PodDisruptionBudget"): {
        Operation.STATUS: status.pod_disruption_budget,
        Operation.AGGREGATE_STATUS: aggregate.pod_disruption_budget,
        Operation.HEALTH: health.pod_disruption_budget,
    },
    GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"): {
        Operation.STATUS: status.autoscaler,
        Operation.AGGREGATE_STATUS: aggregate.autoscaler,
    },
    GroupVersionKind("multicluster.x-k8s.io", "v1alpha1", "ServiceImport"): {
        Operation.DEPENDENCY: dependencies.service_import,
    },
}

_ANY: Final[_Rules] = {Operation.STATUS: status.whole, Operation.PRUNE: retain_and_prune.prune}


def find_native(kind: GroupVersionKind, operation: Operation) -> Function | None:
    """Return the function for a kind and operation, None if there is none. Status and Prune support every kind."""
    return NATIVE.get(kind, _ANY).get(operation) or _ANY.get(operation)


class NativeLayer:
    """The native interpreters of Kubernetes' own kinds."""

    name = "native"

    def find(self, question: Question) -> Handler | None:
        """Return the native interpreter for a kind and operation."""
        function = find_native(question.kind, question.operation)
        return None if function is None else Handler(function.__name__, partial(ask, function), in_thread=True)

    def answers(self) -> Iterator[tuple[GroupVersionKind, Operation]]:
        """Return Kubernetes' kinds with their operations, without the operations that are answered for any kind."""
        return ((kind, operation) for kind, functions in NATIVE.items() for operation in functions)
