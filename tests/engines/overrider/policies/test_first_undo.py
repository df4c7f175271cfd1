"""The undo of a first render."""

from typing import Any

import msgspec
import pytest

from fleethook.engines.overrider.policies.cel import Unsupported
from fleethook.engines.overrider.policies.first_undo import find_defaults, undo_of_first_render
from tests.builders import entry, image, patch, pod_template, yurt_app_set
from tests.engines.overrider.policies.compiling import plan_of

SPEC = "/spec/template/spec"


def test_without_defaults_it_is_the_undo_of_the_plan() -> None:
    plan = plan_of(entry("*", items=[image("nginx", "nginx:2")], patches=[patch("add", "/spec/minReadySeconds", 3)]))
    assert undo_of_first_render(plan, plan.update.delta, find_defaults(plan, plan.update.delta)) == plan.undo_text


CASES = {
    "a member": (
        {},
        patch("add", f"{SPEC}/dnsPolicy", "Default"),
        {"template": {"spec": {"dnsPolicy": "ClusterFirst"}}},
    ),
    "the members of an object": (
        {"strategy": {"type": "RollingUpdate"}},
        patch("add", "/spec/strategy/rollingUpdate", {"maxSurge": 0}),
        {"strategy": {"rollingUpdate": {"maxSurge": "25%"}}},
    ),
    "the type of a strategy that is replaced": (
        {"strategy": {"rollingUpdate": {"maxSurge": 1}}},
        patch("replace", "/spec/strategy", {"type": "Recreate"}),
        {"strategy": {"rollingUpdate": {"$patch": "merge"}, "type": "RollingUpdate"}},
    ),
    "a volume without a source": (
        {"template": pod_template(volumes=[{"name": "v"}])},
        patch("replace", f"{SPEC}/volumes/[name=v]", {"name": "v", "emptyDir": {"medium": "Memory"}}),
        {"template": {"spec": {"volumes": [{"emptyDir": {"medium": None}, "name": "v"}]}}},
    ),
    "a volume with another source": (
        {"template": pod_template(volumes=[{"name": "v", "secret": {"secretName": "s"}}])},
        patch("replace", f"{SPEC}/volumes/[name=v]", {"name": "v", "emptyDir": {"medium": "Memory"}}),
        {"template": {"spec": {"volumes": [{"emptyDir": None, "name": "v", "secret": {"$patch": "merge"}}]}}},
    ),
}


STATEFUL_CASES = {
    "an update strategy without a type": (
        {},
        patch("add", "/spec/updateStrategy", {"type": "OnDelete"}),
        {"updateStrategy": {"rollingUpdate": {"partition": 0}, "type": "RollingUpdate"}},
    ),
    "no rolling update beside a type": (
        {"type": "RollingUpdate"},
        patch("add", "/spec/updateStrategy/rollingUpdate", {"partition": 2}),
        {"updateStrategy": {"rollingUpdate": None}},
    ),
}


@pytest.mark.parametrize(("strategy", "change", "expected"), STATEFUL_CASES.values(), ids=STATEFUL_CASES)
def test_a_default_of_a_stateful_set_is_restored(
    strategy: dict[str, Any], change: dict[str, Any], expected: dict[str, Any]
) -> None:
    subject = yurt_app_set(kind="StatefulSet", serviceName="demo", updateStrategy=strategy)
    plan = plan_of(entry("*", patches=[change]), subject=subject, kind="StatefulSet")
    undo = undo_of_first_render(plan, plan.update.delta, find_defaults(plan, plan.update.delta))
    assert msgspec.json.decode(undo) == {"spec": expected}


@pytest.mark.parametrize(("spec", "change", "expected"), CASES.values(), ids=CASES)
def test_a_default_is_restored(spec: dict[str, Any], change: dict[str, Any], expected: dict[str, Any]) -> None:
    plan = plan_of(entry("*", patches=[change]), subject=yurt_app_set(**spec))
    undo = undo_of_first_render(plan, plan.update.delta, find_defaults(plan, plan.update.delta))
    assert msgspec.json.decode(undo) == {"spec": expected}


def test_the_default_pull_policy_is_unknown() -> None:
    plan = plan_of(entry("*", patches=[patch("add", f"{SPEC}/containers/0/imagePullPolicy", "Always")]))
    with pytest.raises(Unsupported, match="from another one"):
        find_defaults(plan, plan.update.delta)
