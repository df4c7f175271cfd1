"""The pools' own patches of a YurtAppSet: whether they can be merged into its template."""

from collections.abc import Iterator

from app.model.json import JSONObject, as_object
from app.model.openyurt import YURT_APP_SET
from app.overrider.finding import Finding
from app.overrider.plan import compile_plan
from app.overrider.rehearsal import workload_kinds
from app.overrider.template import SubjectError


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
