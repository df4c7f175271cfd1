"""Predicts whether OpenYurt's webhook admits a tweak, which it applies to the template without a node pool.

Source: webhook/yurtappset/v1beta1/yurtappset_validation.go (OpenYurt v1.7.0). Of Kubernetes' validation of the result,
only mounts of volumes are checked here, because a mount and its volume may come from two entries.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fleethook.engines.overrider.convert.subject import bare_document
from fleethook.engines.overrider.entries.items import CONTAINER_LISTS
from fleethook.engines.overrider.template.pool_template import SubjectError
from fleethook.engines.overrider.template.tweaks import apply_tweaks
from fleethook.model.json import JSON, JSONObject, as_object


class Trial(NamedTuple):
    """The template to which tweaks are applied."""

    template: JSONObject
    kind: str
    unmounted: frozenset[str]
    """Volumes that are mounted but missing even without the tweak."""


def prepare_trial(converted: JSONObject, kind: str, workloads: Iterable[JSONObject]) -> Trial:
    """Return the trial of a set's tweaks.

    Args:
        converted: The YurtAppSet v1beta1 without tweaks.
        kind: Deployment or StatefulSet.
        workloads: The expected workloads. The conversion does not cause missing volumes in these.
    """
    template = bare_document(converted, kind)
    missing = (_find_missing_volumes(workload) for workload in (template, *workloads))
    return Trial(template, kind, frozenset().union(*missing))


def find_refusal(tweak: JSONObject, trial: Trial) -> str:
    """Return the reason why the webhook refuses a tweak, ``""`` if it admits the tweak."""
    alone = {"spec": {"workload": {"workloadTweaks": [tweak]}}}
    try:
        workload = apply_tweaks(trial.template, alone, [0], kind=trial.kind, pool="")
    except SubjectError as error:
        return str(error)
    missing = _find_missing_volumes(workload) - trial.unmounted
    return f"no volume is named {', '.join(sorted(missing))}" if missing else ""


def _find_missing_volumes(workload: JSONObject) -> frozenset[str]:
    """Return the names of the volumes that containers mount and that a workload does not have."""
    spec = as_object(workload.get("spec"))
    pod_spec = as_object(as_object(spec.get("template")).get("spec"))
    claims = (as_object(one).get("metadata") for one in _list_elements(spec, "volumeClaimTemplates"))
    known = {as_object(one).get("name") for one in (*_list_elements(pod_spec, "volumes"), *claims)}
    containers = [one for member in CONTAINER_LISTS for one in _list_elements(pod_spec, member)]
    mounts = [
        as_object(mount).get("name") for one in containers for mount in _list_elements(as_object(one), "volumeMounts")
    ]
    return frozenset(name for name in mounts if isinstance(name, str) and name not in known)


def _list_elements(value: Mapping[str, JSON], member: str) -> list[JSON]:
    found = value.get(member)
    return found if isinstance(found, list) else []
