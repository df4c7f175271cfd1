"""Updates of objects that broke a rule before; tests/e2e/test_rules_on_a_cluster.py has a real apiserver."""

from typing import Any

import pytest

from fleethook.admission import Denied, Rule, validate
from fleethook.admission.existing_violations import MAX_CHANGES

OWNER = "metadata.labels: label `owner` is missing"
LATEST = "use a fixed tag"


def pod(*images: str, debug: str = "", owner: str = "", **metadata: Any) -> dict[str, Any]:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images or ("a:1",))]
    spec: dict[str, Any] = {"containers": containers}
    if debug:
        spec["ephemeralContainers"] = [{"name": "debug", "image": debug}]
    labels = {"labels": {"owner": owner}} if owner else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "n", **labels, **metadata},
        "spec": spec,
    }


def needs_owner(request: Any) -> None:
    if "owner" not in request.labels:
        raise Denied("label `owner` is missing", field="metadata.labels")


async def needs_owner_later(request: Any) -> None:
    needs_owner(request)


def no_latest(pod: Any) -> None:
    for kind in ("containers", "ephemeralContainers"):
        for index, one in enumerate(pod.spec.get(kind, [])):
            if one.image.endswith(":latest"):
                raise Denied(LATEST, field=f"spec.{kind}[{index}].image")


def owned_and_no_latest(pod: Any) -> None:
    if "owner" not in pod.metadata.get("labels", {}):
        raise Denied("no owner")
    no_latest(pod)


def no_latest_at_all(pod: Any) -> None:
    listed = [*pod.spec.containers, *pod.spec.get("ephemeralContainers", [])]
    if any(one.image.endswith(":latest") for one in listed):
        raise Denied(LATEST)


def first_is_fixed(pod: Any) -> None:
    if pod.spec.containers[0].image.endswith(":latest"):
        raise Denied(LATEST)


def no_host_namespaces(pod: Any) -> None:
    if any(pod.spec.get(name) for name in ("hostIPC", "hostPID")):
        raise Denied(LATEST)


def no_privileges(pod: Any) -> None:
    contexts = [one.get("securityContext", {}) for one in pod.spec.containers]
    if any(context.get("privileged") or context.get("allowPrivilegeEscalation") for context in contexts):
        raise Denied(LATEST)


def no_capabilities(pod: Any) -> None:
    added = [
        name
        for one in pod.spec.containers
        for name in one.get("securityContext", {}).get("capabilities", {}).get("add", [])
    ]
    if any(name.startswith("x") for name in added):
        raise Denied(LATEST)


def no_unconfined(request: Any) -> None:
    if "x" in request.annotations.values():
        raise Denied(LATEST)


def two_labels(request: Any) -> None:
    if not {"owner", "team"} <= request.labels.keys():
        raise Denied(LATEST, field="metadata.labels")


def two_labels_somewhere(request: Any) -> None:
    if not {"owner", "team"} <= request.labels.keys():
        raise Denied(LATEST)


def few_seconds(pod: Any) -> None:
    if pod.spec.get("activeDeadlineSeconds", 0) > 60:
        raise Denied(LATEST)


def few_seconds_at_field(pod: Any) -> None:
    if pod.spec.get("activeDeadlineSeconds", 0) > pod.spec.get("terminationGracePeriodSeconds"):
        raise Denied(LATEST, field="spec.activeDeadlineSeconds")


def hardened(pod: Any) -> None:
    context = pod.spec.get("securityContext", {})
    if not context.get("runAsNonRoot") or not context.get("seccompProfile"):
        raise Denied(LATEST, field="spec.securityContext")


def needs_limits(pod: Any) -> None:
    if not all(one.get("resources", {}).get("limits") for one in pod.spec.containers):
        raise Denied(LATEST)


def needs_probe(pod: Any) -> None:
    for index, one in enumerate(pod.spec.containers):
        if "readinessProbe" not in one:
            raise Denied(LATEST, field=f"spec.containers[{index}]")


def no_x_in_selector(pod: Any) -> None:
    if "x" in pod.spec.get("nodeSelector", {}).values():
        raise Denied(LATEST, field="spec.nodeSelector")


def no_x_in_list(pod: Any) -> None:
    for index, name in enumerate(pod.metadata.get("finalizers", [])):
        if name.startswith("x"):
            raise Denied(LATEST, field=f"metadata.finalizers[{index}]")


def baseline(pod: Any) -> None:
    spec = pod.spec
    contexts = [spec, *spec.containers, *spec.get("ephemeralContainers", [])]
    if spec.get("hostPID") or any(one.get("securityContext", {}).get("privileged") for one in contexts):
        raise Denied(LATEST)


def no_secret_entry(widget: Any) -> None:
    for name, one in widget.spec.entries.items():
        if one.get("secret"):
            raise Denied(LATEST, field=f"spec.entries.{name}.secret")


def no_secrets(widget: Any) -> None:
    if any(one.get("secret") for one in widget.spec.entries.values()):
        raise Denied(LATEST)


def widget(**entries: bool) -> dict[str, Any]:
    made = {name: {"secret": one} for name, one in entries.items()}
    return {**pod(), "apiVersion": "example.org/v1", "kind": "Widget", "spec": {"entries": made}}


def privileged_debug() -> dict[str, Any]:
    return with_spec(hostPID=True, ephemeralContainers=[{"name": "d", "securityContext": {"privileged": True}}])


def for_widgets(function: Any) -> Rule:
    return validate("example.org/v1", "Widget")(function)


def no_x_in_annotation(request: Any) -> None:
    if request.annotations.get("a", "").startswith("x"):
        raise Denied(LATEST, field="metadata.annotations.a")


def little_memory(pod: Any) -> None:
    for one in pod.spec.containers:
        if one.get("resources", {}).get("limits", {}).get("memory", "1Gi") != "1Gi":
            raise Denied(LATEST)


def limited(*memory: str, **members: Any) -> dict[str, Any]:
    found = [
        {"name": f"c{index}", "image": "a:1", **({"resources": {"limits": {"memory": one}}} if one else {}), **members}
        for index, one in enumerate(memory)
    ]
    return with_spec(containers=found)


def with_spec(**members: Any) -> dict[str, Any]:
    return {**pod(), "spec": {**pod()["spec"], **members}}


def with_context(**members: Any) -> dict[str, Any]:
    return with_spec(containers=[{"name": "a", "image": "a:1", "securityContext": members}])


def with_added(*names: str) -> dict[str, Any]:
    return with_context(capabilities={"add": [*names]})


def no_aliases(pod: Any) -> None:
    if pod.spec.get("hostAliases"):
        raise Denied(LATEST, field="spec.hostAliases[0]")


def make(function: Any, **options: Any) -> Rule:
    return validate("v1", "Pod", **options)(function)


def by_expression(expression: str) -> Rule:
    def decides() -> None:
        pass

    return make(decides, expression=expression, message=LATEST)


ALL_FIXED = "object.spec.containers.all(one, !one.image.endsWith(':latest'))"


@pytest.mark.parametrize(
    ("rule", "stored", "updated"),
    [
        (make(needs_owner), pod(finalizers=["a/b"]), pod()),
        (make(needs_owner), pod(), pod(annotations={"a": "b"})),
        (make(needs_owner), pod(), pod("a:2")),
        (make(needs_owner), pod(), pod(debug="debug:1")),
        (make(needs_owner_later), pod(finalizers=["a/b"]), pod()),
        (make(needs_owner, inline=True), pod(finalizers=["a/b"]), pod()),
        (make(no_latest), pod("a:latest"), pod("a:latest", annotations={"a": "b"})),
        (make(no_latest), pod("a:latest"), pod("a:latest", debug="debug:1")),
        (make(no_latest), pod("a:1", "a:latest"), pod("a:2", "a:latest")),
        (make(no_latest, object_selector={"matchLabels": {"owner": "x"}}), pod("a:latest", owner="x"), pod("a:latest", owner="x", finalizers=["a/b"])),
        (make(no_latest), pod("a:1", "b:latest"), {**pod(), "spec": {"containers": pod("a:1", "b:latest")["spec"]["containers"][::-1]}}),
        (make(owned_and_no_latest), pod("a:1", "b:latest", owner="x"), {**pod(owner="y"), "spec": {"containers": pod("a:1", "b:latest")["spec"]["containers"][1:]}}),
        (make(no_latest_at_all), pod("a:latest", owner="x"), pod("a:latest")),
        (make(no_latest), pod("a:latest", "b:1"), with_spec(containers=[{"name": "c1", "image": "b:1"}, {"name": "c0", "image": "a:latest", "tty": True}])),
        # One of two violations is repaired.
        (make(no_latest), pod("a:latest", "b:latest"), pod("a:1", "b:latest")),
        (make(no_latest_at_all), pod("a:latest"), pod("a:latest", debug="debug:1")),
        (make(no_host_namespaces), with_spec(hostIPC=True), with_spec(hostIPC=True, nodeName="a")),
        (make(no_privileges), with_context(privileged=True), with_context(privileged=True, runAsNonRoot=True)),
        (make(no_unconfined), pod(annotations={"a": "x"}), pod(annotations={"a": "x", "b": "y"})),
        (make(no_capabilities), with_added("x1"), with_added("x1", "a")),
        (make(two_labels), pod(labels={"team": "a"}), pod(labels={"team": "b", "role": "c"})),
        (make(two_labels_somewhere), pod(finalizers=["a/b"], annotations={"a": "b"}), pod("a:2", labels={"team": "a"})),
        (make(few_seconds), with_spec(activeDeadlineSeconds=90), with_spec(activeDeadlineSeconds=90, priority=1)),
        (make(few_seconds), with_spec(activeDeadlineSeconds=90, schedulingGates=[{"name": "a"}]), with_spec(activeDeadlineSeconds=90)),
        (make(needs_limits), limited(""), limited("", image="a:2")),
        (make(needs_limits), limited("", "1Gi"), limited("", "2Gi")),
        (make(hardened), with_spec(), with_spec(priority=1)),
        (make(hardened), with_spec(securityContext={"runAsNonRoot": True}), with_spec(securityContext={"runAsNonRoot": True, "fsGroup": 1})),
        (make(no_x_in_selector), with_spec(nodeSelector={"a": "x"}), with_spec(nodeSelector={"a": "x", "b": "y"})),
        (make(needs_probe), pod("a:1"), pod("a:2")),
        (make(no_x_in_list), pod(finalizers=["x/a"]), pod(finalizers=["a/b", "x/a"])),
        (make(baseline), with_spec(hostPID=True), with_spec(hostPID=True, ephemeralContainers=[{"name": "d"}])),
        (for_widgets(no_secret_entry), widget(a=True), widget(a=True, b=False)),
        (for_widgets(no_secrets), widget(a=True), widget(a=True, b=False)),
        (make(no_x_in_annotation), pod(annotations={"a": "x"}), pod(annotations={"a": "x", "b": "x"})),
        (make(two_labels_somewhere), with_spec(activeDeadlineSeconds=9, hostIPC=True, nodeSelector={"a": "b"}), with_spec()),
        (make(no_latest_at_all), pod("a:latest"), {**pod("a:latest"), "spec": {**pod("a:latest")["spec"], "ttl": 1}}),
        # The function fails without the first container. Only metadata changes, which controllers need.
        (make(first_is_fixed), pod("a:latest", finalizers=["a/b"]), pod("a:latest")),
        (by_expression(ALL_FIXED), pod("a:latest"), pod("a:latest", annotations={"a": "b"})),
    ],
)  # fmt: skip
def test_an_update_does_not_answer_for_a_violation_that_the_object_had(rule: Rule, stored: Any, updated: Any) -> None:
    answer = rule.review(updated, operation="UPDATE", old=stored)
    message = OWNER if rule.name.startswith("needs-owner") else LATEST
    assert answer.allowed, answer
    (warning,) = answer.warnings
    assert warning.startswith(f"the stored object breaks the rule {rule.name}, too, so the update is admitted: ")
    assert warning.endswith(message)
    assert not rule.review(stored).allowed, "the rule refuses a new object"


@pytest.mark.parametrize(
    ("rule", "stored", "updated", "message"),
    [
        (make(needs_owner), pod(owner="x"), pod(), OWNER),
        (make(needs_owner, existing="refuse"), pod(), pod("a:2"), OWNER),
        (make(needs_owner, on="UPDATE"), pod(), pod("a:2"), OWNER),
        (make(needs_owner, side_effects="NoneOnDryRun"), pod(), pod("a:2"), OWNER),
        (make(needs_owner, object_selector={"matchLabels": {"team": "web"}}), pod(), pod(labels={"team": "web"}), OWNER),
        (make(needs_owner, match_conditions={"a": "object.spec.containers[0].image != 'a:1'"}), pod(), pod("a:2"), OWNER),
        (make(no_latest), pod("a:latest", "b:1"), pod("a:latest", "b:latest"), f"spec.containers[1].image: {LATEST}"),
        (make(no_latest), pod("a:latest"), pod("a:latest", "b:latest"), f"spec.containers[1].image: {LATEST}"),
        (make(no_latest), pod("a:latest"), pod("a:latest", debug="d:latest"), f"spec.ephemeralContainers[0].image: {LATEST}"),
        (make(no_latest), pod("a:latest", "b:1"), pod("a:1", "b:latest"), f"spec.containers[1].image: {LATEST}"),
        (make(no_latest_at_all), pod("a:latest"), pod("a:latest", debug="debug:latest"), LATEST),
        (make(no_host_namespaces), with_spec(hostIPC=True), with_spec(hostIPC=True, hostPID=True), LATEST),
        (make(no_host_namespaces), with_spec(), with_spec(hostPID=True), LATEST),
        (make(no_privileges), with_context(privileged=True), with_context(privileged=True, allowPrivilegeEscalation=True), LATEST),
        (make(no_unconfined), pod(annotations={"a": "x"}), pod(annotations={"a": "x", "b": "x"}), LATEST),
        (make(no_capabilities), with_added("x1"), with_added("x1", "x2"), LATEST),
        (by_expression(ALL_FIXED), pod("a:latest"), pod("a:latest", "b:latest"), LATEST),
        # The value gets worse, or another one is missing, and the message stays.
        (make(no_latest), pod("a:latest"), pod("b:latest"), f"spec.containers[0].image: {LATEST}"),
        (make(no_latest_at_all), pod("a:latest"), pod("b:latest"), LATEST),
        (make(two_labels), pod(labels={"team": "a"}), pod(), f"metadata.labels: {LATEST}"),
        (make(two_labels_somewhere), pod(labels={"team": "a"}), pod(), LATEST),
        (make(few_seconds), with_spec(activeDeadlineSeconds=90), with_spec(activeDeadlineSeconds=91), LATEST),
        (make(few_seconds_at_field), with_spec(activeDeadlineSeconds=90), with_spec(activeDeadlineSeconds=91), f"spec.activeDeadlineSeconds: {LATEST}"),
        (make(hardened), with_spec(securityContext={"runAsNonRoot": True}), with_spec(securityContext={"runAsNonRoot": False}), f"spec.securityContext: {LATEST}"),
        (make(hardened), with_spec(securityContext={"runAsNonRoot": True}), with_spec(), f"spec.securityContext: {LATEST}"),
        (make(needs_limits), limited("", "1Gi"), limited("", ""), LATEST),
        (make(no_x_in_selector), with_spec(nodeSelector={"a": "x"}), with_spec(nodeSelector={"a": "x", "b": "x"}), f"spec.nodeSelector: {LATEST}"),
        (make(no_x_in_selector), with_spec(nodeSelector={"a": "x"}), with_spec(nodeSelector={"b": "x"}), f"spec.nodeSelector: {LATEST}"),
        (make(no_x_in_list), pod(finalizers=["x/a"]), pod(finalizers=["x/b", "x/a"]), f"metadata.finalizers[0]: {LATEST}"),
        (make(baseline), with_spec(hostPID=True), privileged_debug(), LATEST),
        (for_widgets(no_secret_entry), widget(a=True), widget(a=True, b=True), f"spec.entries.b.secret: {LATEST}"),
        (for_widgets(no_secret_entry), widget(a=True, b=False), widget(a=True, b=True), f"spec.entries.b.secret: {LATEST}"),
        (for_widgets(no_secrets), widget(a=True), widget(a=True, b=True), LATEST),
        (make(no_x_in_list), pod(finalizers=["x/a"]), pod(finalizers=["x/a", "x/b"]), f"metadata.finalizers[0]: {LATEST}"),
        (make(needs_probe), pod("a:1"), pod("a:1", "b:1"), f"spec.containers[1]: {LATEST}"),
        (make(no_x_in_annotation), pod(annotations={"a": "x"}), pod(annotations={"a": "xx"}), f"metadata.annotations.a: {LATEST}"),
        (make(needs_limits), limited("", tty="a"), limited(""), LATEST),
        (make(no_aliases), with_spec(hostAliases=[{"ip": "::1"}]), with_spec(hostAliases=[{"ip": "::1"}] * 2), f"spec.hostAliases[1]: {LATEST}"),
        (make(little_memory), limited("2Gi"), limited("4Gi"), LATEST),
        (by_expression(f"oldObject == null || {ALL_FIXED}"), pod("a:latest"), pod("a:latest", annotations={"a": "b"}), LATEST),
        (by_expression(f"request.userInfo.?username.orValue('') == 'x' || {ALL_FIXED}"), pod("a:latest"), pod("b:latest"), LATEST),
        # The function fails about the parts without the first container, so they may hide a further violation.
        (make(first_is_fixed), pod("a:latest"), {**pod("a:latest"), "spec": {**pod("a:latest")["spec"], "hostNetwork": True}}, LATEST),
        (make(first_is_fixed), pod("a:latest"), pod("a:latest", debug="debug:1"), LATEST),
    ],
)  # fmt: skip
def test_an_update_answers_for_what_it_adds(rule: Rule, stored: Any, updated: Any, message: str) -> None:
    answer = rule.review(updated, operation="UPDATE", old=stored)
    assert (answer.allowed, answer.code, answer.message, answer.warnings) == (False, 403, message, ())
    if message.startswith("spec"):
        assert answer.causes[0].field == message.partition(": ")[0]


def reads_old(pod: Any, old: Any) -> None:
    raise Denied("no")


def reads_old_of_the_request(request: Any) -> None:
    if request.old is not None:
        raise Denied("no")


def reads_user(request: Any) -> None:
    raise Denied(f"{request.user.get('username', '')} may not")


def forbids_updates(request: Any) -> None:
    if request.operation == "UPDATE":
        raise Denied("no")


def names_the_value(pod: Any) -> None:
    raise Denied(f"{pod.spec.containers[0].image} is not allowed")


def fails(pod: Any) -> None:
    raise KeyError("a")


@pytest.mark.parametrize(
    "function", [reads_old, reads_old_of_the_request, reads_user, forbids_updates, names_the_value, fails]
)
def test_a_rule_about_more_than_the_object_decides_itself(function: Any) -> None:
    assert not make(function).review(pod("a:2"), operation="UPDATE", old=pod("a:1")).allowed


def test_the_subresource_of_a_debug_container_is_compared() -> None:
    answer = make(no_latest).review(
        pod("a:latest", debug="d:latest"), operation="UPDATE", old=pod("a:latest"), subresource="ephemeralcontainers"
    )
    assert answer.message == f"spec.ephemeralContainers[0].image: {LATEST}"


def test_a_failing_stored_object_is_no_former_violation() -> None:
    def decides(pod: Any) -> None:
        if pod.metadata.get("annotations") is None:
            raise KeyError("a")
        raise Denied("no")

    assert not make(decides).review(pod(annotations={"a": "b"}), operation="UPDATE", old=pod()).allowed


def test_an_update_of_more_elements_than_a_rule_can_be_asked_about_answers_for_all() -> None:
    rule = make(no_latest, timeout=30)
    stored = pod(*["a:latest"] * MAX_CHANGES)
    updated = {**stored, "spec": {"containers": [{**one, "tty": True} for one in stored["spec"]["containers"]]}}
    answer = rule.review(updated, operation="UPDATE", old=stored)
    assert answer.message == f"spec.containers[0].image: {LATEST}"
    assert rule.review(stored, operation="UPDATE", old=stored).allowed
