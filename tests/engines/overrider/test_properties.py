"""Properties of any overrider: rendering again changes nothing, and deleting the overrider restores the workload."""

import copy
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.last_render import NEVER_RENDERED, read_last_render
from fleethook.engines.overrider.render.plan_patch import render_with
from fleethook.model.openyurt import YURT_APP_OVERRIDER, YURT_APP_SET
from fleethook.patch import apply, identical
from tests.builders import (
    container,
    entry,
    image,
    mutate_workload,
    overrider,
    patch,
    pod_template,
    request,
    store_of,
    workload,
    yurt_app_set,
)
from tests.hypothesis_profiles import cases, examples

SPEC = "/spec/template/spec"
TEMPLATE = pod_template(
    containers=[container("nginx", args=["a"], env=[{"name": "E", "value": "1"}]), container("second")],
    volumes=[{"name": "config", "configMap": {"name": "cm"}}],
    nodeSelector={"disk": "ssd"},
)
TEMPLATE["metadata"]["annotations"] = {"own": "1"}
SUBJECT = yurt_app_set(template=TEMPLATE)

ITEMS = st.lists(
    st.sampled_from([image("nginx", "x:1"), image("second", "y:2"), image("absent", "z"), {"replicas": 9}]), max_size=3
)
PATCHES = st.lists(
    st.sampled_from(
        [
            patch("add", f"{SPEC}/volumes/-", {"name": "mine", "hostPath": {"path": "/d"}}),
            patch("add", f"{SPEC}/containers/-", container("extra")),
            patch("add", f"{SPEC}/containers/0/args/-", "b"),
            patch("add", f"{SPEC}/containers/0/env/0", {"name": "P", "value": "{{nodepool}}"}),
            patch("replace", f"{SPEC}/containers/0/env/0/value", "2"),
            patch("remove", f"{SPEC}/containers/1"),
            patch("remove", f"{SPEC}/volumes/0"),
            patch("replace", f"{SPEC}/volumes/0", {"name": "config", "emptyDir": {}}),
            patch("replace", f"{SPEC}/nodeSelector", {"zone": "z"}),
            patch("remove", f"{SPEC}/nodeSelector"),
            patch("remove", f"{SPEC}/nodeSelector/disk"),
            patch("add", f"{SPEC}/nodeSelector/zone", "z"),
            patch("replace", f"{SPEC}/containers/0/env", [{"name": "E", "value": "3"}]),
            patch("add", f"{SPEC}/tolerations", [{"key": "t"}]),
            patch("add", f"{SPEC}/securityContext", {"runAsUser": 1, "sysctls": [{"name": "s", "value": "1"}]}),
            patch("add", "/spec/template/metadata/annotations/note", "{{nodepool}}"),
            patch("add", "/metadata/annotations/note", "x"),
            patch("replace", "/spec/replicas", 4),
            patch("add", "/spec/minReadySeconds", 3),
        ]
    ),
    max_size=4,
    unique_by=lambda made: (made["operation"], made["path"]),
)
OPERATIONS = ["CREATE", "UPDATE"]
RULES = st.lists(st.builds(lambda items, patches: entry("*", items=items, patches=patches), ITEMS, PATCHES), max_size=3)


def make_workload() -> dict[str, Any]:
    """The workload as its owner created it, with members that other writers have set since.

    Others' list elements are left out: they stand behind the template's, and an entry that removes or replaces by an
    index beyond those would mean them. Rules about elements of others have tests of their own.
    """
    document = workload(template=copy.deepcopy(TEMPLATE), paused=True)
    document["spec"]["template"]["metadata"]["labels"] = dict(document["metadata"]["labels"])
    document["metadata"]["annotations"]["theirs"] = "1"
    document["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = "now"
    document["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30
    return document


MET: Counter[str] = Counter()


@settings(max_examples=examples(300))
@given(RULES, st.integers(0, 4), st.sampled_from(["", "label", "element", "forged"]), st.sampled_from(OPERATIONS))
def _compare_with_rendering(entries: Any, replicas: int, theirs: str, operation: str) -> None:
    """Ask several times: the values of a pool are filled into its patch later, and templates are recognized."""
    document = make_workload()
    document["spec"]["replicas"] = replicas
    if theirs == "label":
        document["spec"]["template"]["metadata"]["labels"]["theirs"] = "1"
    elif theirs == "element":
        document["spec"]["template"]["spec"]["volumes"].append({"name": "theirs"})
    elif theirs == "forged":
        document["metadata"]["annotations"]["fleethook.io/undo"] = "{}"
    store, plans = store_of(SUBJECT, overrider(*copy.deepcopy(entries))), PlanCache()
    old = document if operation == "UPDATE" else None
    answers = [mutate_workload(request(document, operation, old), store=store, plans=plans) for _ in range(6)]
    assert len({(answer.allowed, answer.message) for answer in answers}) == 1
    if not answers[0].allowed or any("not rendered" in one for one in answers[0].warnings):
        return
    overriders = list(store.each("", YURT_APP_OVERRIDER))
    plan = plans.plan(YURT_APP_SET, SUBJECT, overriders[0], kind="Deployment", pool="hangzhou", cluster="", store=store)
    if not plan.applies:
        return
    last_render = read_last_render(document) and (NEVER_RENDERED if old is None else read_last_render(document))
    expected = render_with(plan.full, document, last_render=last_render, creating=old is None)
    for answer in answers:
        assert identical(apply(document, answer.patch), expected)
    if old is None and last_render is None and plan.fast is not None:
        MET["precompiled"] += (
            plan.fast.operations_for_new(document, next_render=plan.next_render, values=plan.values) is not None
        )


def test_repeated_reviews_have_the_same_result_as_rendering() -> None:
    MET.clear()
    _compare_with_rendering()
    assert MET["precompiled"] >= cases(20), MET
