"""The undo of a first render."""

import msgspec
import pytest

from app.overrider.policies.cel import Unsupported
from app.overrider.policies.first_undo import find_defaults, undo_of_first_render
from tests.builders import entry, image, patch
from tests.overrider.policies.compiling import plan_of

SPEC = "/spec/template/spec"


def test_without_defaults_it_is_the_undo_of_the_plan() -> None:
    plan = plan_of(entry("*", items=[image("nginx", "nginx:2")], patches=[patch("add", "/spec/minReadySeconds", 3)]))
    assert undo_of_first_render(plan, plan.update.delta, find_defaults(plan.update.delta)) == plan.undo_text


def test_a_default_is_restored() -> None:
    plan = plan_of(entry("*", patches=[patch("add", f"{SPEC}/dnsPolicy", "Default")]))
    defaults = find_defaults(plan.update.delta)
    assert defaults == {("spec", "template", "spec", "dnsPolicy"): "ClusterFirst"}
    undo = msgspec.json.decode(undo_of_first_render(plan, plan.update.delta, defaults))
    assert undo == {"spec": {"template": {"spec": {"dnsPolicy": "ClusterFirst"}}}}


def test_the_default_pull_policy_is_unknown() -> None:
    plan = plan_of(entry("*", patches=[patch("add", f"{SPEC}/containers/0/imagePullPolicy", "Always")]))
    with pytest.raises(Unsupported, match="from another one"):
        find_defaults(plan.update.delta)
