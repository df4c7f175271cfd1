"""Rules for the patches of pools and the tweaks of a YurtAppSet: they must fit its template."""

from collections.abc import Iterator
from typing import Final

from app.model.json import JSONObject, as_object
from app.model.openyurt import YURT_APP_SET
from app.overrider.finding import Finding
from app.overrider.plan import compile_plan
from app.overrider.pool_template import PoolSettings, SubjectError
from app.overrider.subject_parts import tweaks_of, workload_kinds
from app.overrider.template import build_template

_ANY_POOL: Final = "pool"


def check_pool_patches(subject: JSONObject) -> Iterator[Finding]:
    """Yield the pools of a YurtAppSet whose own patch does not fit its template.

    Args:
        subject: A YurtAppSet of v1alpha1.
    """
    pools = as_object(as_object(subject.get("spec")).get("topology")).get("pools")
    for number, pool in enumerate(pools if isinstance(pools, list) else ()):
        name, patch = as_object(pool).get("name"), as_object(pool).get("patch")
        if not isinstance(name, str) or not patch:
            continue
        for kind in workload_kinds(subject):
            try:
                compile_plan(YURT_APP_SET, subject, None, kind=kind, pool=name, node_pool=None)
            except SubjectError as error:
                field = f"spec.topology.pools[{number}].patch"
                yield Finding("does-not-fit", field, f"{error} (node pool {name}, {kind})")


def check_tweaks(subject: JSONObject) -> Iterator[Finding]:
    """Yield the tweaks of a YurtAppSet v1beta1 that do not fit its template, each by itself, as OpenYurt checks them.

    Args:
        subject: A YurtAppSet of v1beta1.
    """
    for number in range(len(tweaks_of(subject))):
        alone = PoolSettings(tweaks=[number])
        for kind in workload_kinds(subject):
            try:
                build_template(YURT_APP_SET, subject, kind=kind, pool=_ANY_POOL, node_pool=None, settings=alone)
            except SubjectError as error:
                yield Finding("does-not-fit", f"spec.workload.workloadTweaks[{number}]", f"{error} ({kind})")
