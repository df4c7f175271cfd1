"""Compiles overriders of one YurtAppSet, for tests."""

from typing import Any

from fleethook.engines.overrider.plan.plan import Plan
from fleethook.engines.overrider.plan.subject_plans import SubjectPlans
from fleethook.engines.overrider.policies.compiler import compile_overrider
from fleethook.engines.overrider.policies.mode import Compilation
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import overrider, yurt_app_set

POOLS = {"hangzhou": None, "beijing": None}


def compiled(*entries: dict[str, Any], subject: dict[str, Any] | None = None, **metadata: Any) -> Compilation:
    return compile_overrider(YURT_APP_SET, subject or yurt_app_set(), overrider(*entries, **metadata), pools=POOLS)


def plan_of(*entries: dict[str, Any], subject: dict[str, Any] | None = None, kind: str = "Deployment") -> Plan:
    plans = SubjectPlans(YURT_APP_SET, subject or yurt_app_set(), overrider(*entries))
    return plans.plan(kind, "hangzhou", None).shared.plan


def expression_of(compilation: Compilation) -> str:
    """Return all expressions of the first policy."""
    spec = compilation.objects[0]["spec"]
    return "\n".join(
        [one["expression"] for one in spec["variables"]] + [one["jsonPatch"]["expression"] for one in spec["mutations"]]
    )
