import asyncio
import gc
import os
import signal
import threading
import weakref
from typing import Any

import msgspec
import pytest

from fleethook.admission import Denied, Request, mutate, validate
from fleethook.admission.rule_in_tests import Surroundings, ask_in_order, build_request
from fleethook.admission.store_parameter import FIND_NOTHING
from tests.admission.test_rule_in_tests import default_seccomp, needs_owner

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "n", "labels": {"app": "web"}, "annotations": {"note": "x"}},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}


class Meta(msgspec.Struct):
    name: str


class Pod(msgspec.Struct):
    metadata: Meta


def test_a_rule_gets_the_parameters_that_it_names() -> None:
    seen: dict[str, Any] = {}

    @validate("v1", "Pod", on="UPDATE", follows=("v1", "ConfigMap"))
    def reads(pod: Pod, old: Any, request: Request, warnings: list[str], store: Any, settings: Any) -> None:
        warnings.append(f"{pod.metadata.name} was {old.metadata.name}")
        seen.update(store=store.get("v1", "ConfigMap", "c").data.k, settings=settings["team"])
        seen.update(labels=dict(request.labels), note=request.annotations["note"], user=request.user.username)
        seen.update(operation=request.operation, name=request.name, namespace=request.namespace)
        seen.update(kind=request.kind.kind, resource=request.resource.resource)
        seen.update(dry_run=request.dry_run, subresource=request.subresource)

    found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": ""}, "data": {"k": "v"}}
    given: Any = {"operation": "UPDATE", "user": {"username": "ann"}, "store": [found], "settings": {"team": "web"}}
    answer = reads.review(POD, **given, dry_run=True)
    assert answer.message == ""
    assert answer.warnings == ("a was a",)
    assert seen == {
        "store": "v", "settings": "web", "labels": {"app": "web"}, "note": "x", "user": "ann",
        "operation": "UPDATE", "name": "a", "namespace": "n", "kind": "Pod", "resource": "pods",
        "dry_run": True, "subresource": "",
    }  # fmt: skip


def test_a_call_leaves_nothing_to_the_garbage_collector() -> None:
    seen: list[weakref.ref[Request]] = []

    @validate("v1", "Pod")
    def reads(pod: Any, request: Request) -> None:
        seen.append(weakref.ref(request))
        if request.labels.get("app") == "web":
            raise Denied(pod.metadata.name)

    gc.disable()
    try:
        assert not reads.review(POD).allowed
        assert [request() for request in seen] == [None]
    finally:
        gc.enable()


def test_a_mutating_rule_may_return_the_object() -> None:
    @mutate("v1", "Pod")
    def changes(pod: Any) -> Any:
        return {**pod, "spec": {"containers": [{"name": "b", "image": "b"}]}}

    assert changes.review(POD).object["spec"] == {"containers": [{"name": "b", "image": "b"}]}


def test_a_typed_object_that_is_changed_keeps_its_other_members() -> None:
    class Labelled(msgspec.Struct):
        labels: dict[str, str] = {}

    class Object(msgspec.Struct):
        metadata: Labelled

    @mutate("v1", "Pod")
    def changes(pod: Object) -> None:
        pod.metadata.labels["team"] = "web"

    assert changes.review(POD).patch == [{"op": "add", "path": "/metadata/labels/team", "value": "web"}]


def test_a_rule_that_changes_nothing_has_no_patch() -> None:
    @mutate("v1", "Pod")
    def changes(pod: Any) -> None:
        pod.spec.containers[0].image = "nginx"

    assert changes.review(POD).patch == ()


@pytest.mark.parametrize(
    "path",
    [
        "/metadata/namespace", "/metadata/deletionTimestamp", "/kind", "/apiVersion",
    ],
)  # fmt: skip
def test_a_patch_of_a_field_that_identifies_the_object_is_a_failure(path: str) -> None:
    @mutate("v1", "Pod", failure_policy="Fail")
    def changes(pod: Any) -> None:
        *parents, last = path[1:].split("/")
        (pod[parents[0]] if parents else pod)[last] = "other"

    assert f"ValueError: the rule changed {path}, which no webhook may change" in changes.review(POD).message


@pytest.mark.parametrize(
    ("result", "problem"),
    [(False, "the rule returned bool: raise Denied to refuse, and return nothing"), ("no", "the rule returned str")],
)
def test_a_validating_rule_that_returns_something_fails(result: Any, problem: str) -> None:
    @validate("v1", "Pod")
    def returns() -> Any:
        return result

    assert problem in returns.review(POD).message


def test_a_value_that_json_does_not_have_is_a_failure() -> None:
    @mutate("v1", "Pod", failure_policy="Fail")
    def changes(pod: Any) -> None:
        pod.spec.thing = object()

    problem = "TypeError: /spec/thing: JSON has no object: store a dict, a list, a text, a number, a bool or None"
    assert problem in changes.review(POD).message


def test_an_object_that_does_not_fit_its_type_is_a_failure() -> None:
    class Numbered(msgspec.Struct):
        metadata: int

    @validate("v1", "Pod")
    def reads(pod: Numbered) -> None:
        pass

    problem = "TypeError: the object does not fit the type of 'pod': /metadata: Expected `int`, got `object`"
    assert problem in reads.review(POD).message


class Spec(msgspec.Struct):
    replicas: int = 1


class Sized(msgspec.Struct):
    metadata: dict[str, Any]
    spec: Spec = msgspec.field(default_factory=Spec)


def change_request(pod: Pod, request: Request) -> None:
    request.object.spec.paused = True


def return_part(pod: Sized) -> Any:
    return pod.spec


def return_dict(pod: Sized) -> Any:
    return {"spec": {}}


def return_typed(pod: Any) -> Any:
    return msgspec.convert(pod, Sized)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (change_request, "the rule changed request.object: change 'pod' instead"),
        (return_part, "the rule returned Spec: return the object, a Sized, or nothing"),
        (return_dict, "the rule returned dict: return the object, a Sized, or nothing"),
        (return_typed, "the rule returned Sized: return the object, a dict, or nothing"),
    ],
)
def test_a_result_that_would_lose_members_or_changes_is_a_failure(function: Any, problem: str) -> None:
    answer = mutate("v1", "Pod", failure_policy="Fail")(function).review(POD)
    assert (answer.code, answer.message.partition("TypeError: ")[2]) == (500, problem)


def test_a_stored_object_may_have_an_optional_type() -> None:
    @validate("v1", "Pod")
    def reads(pod: Pod, old: Pod | None) -> None:
        raise Denied(f"{pod.metadata.name} {old and old.metadata.name}")

    assert reads.review(POD).message == "a None"
    assert reads.review(POD, operation="UPDATE").message == "a a"


def test_changes_of_the_settings_do_not_reach_other_calls() -> None:
    settings: dict[str, Any] = {"list": [1], "map": {}}

    @validate("v1", "Pod")
    def changes(settings: Any) -> None:
        settings["new"] = 1
        settings.list.append(2)
        settings.map.a = 1

    assert changes.review(POD, settings=settings).allowed
    assert settings == {"list": [1], "map": {}}


@pytest.mark.parametrize(
    ("group", "subresource", "is_failure"),
    [
        ("", "", True),
        ("policy", "", True),
        ("storage.k8s.io", "", True),
        ("", "status", False),
        ("example.org", "", False),
    ],
)
def test_the_status_of_a_built_in_kind_changes_only_by_its_subresource(
    group: str, subresource: str, *, is_failure: bool
) -> None:
    api_version = f"{group}/v1" if group else "v1"

    @mutate(api_version, "Thing", subresource=subresource)
    def changes(thing: Any) -> None:
        thing.status = {"phase": "Running"}

    thing = {"apiVersion": api_version, "kind": "Thing", "metadata": {"name": "a"}}
    answer = changes.review(thing, subresource=subresource)
    problem = "/status, which kube-apiserver ignores in this request: declare subresource='status'"
    assert any(problem in one for one in answer.warnings) is is_failure
    assert bool(answer.patch) is not is_failure


def test_a_request_for_the_status_changes_nothing_else() -> None:
    @mutate("v1", "Pod", on="UPDATE", subresource="status", failure_policy="Fail")
    def changes(pod: Any) -> None:
        pod.spec.hostNetwork = True

    answer = changes.review(POD, operation="UPDATE", subresource="status")
    assert "/spec, which kube-apiserver ignores in this request: declare no subresource" in answer.message


STORED: Any = {
    **POD,
    "metadata": {
        **POD["metadata"], "uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "a"}], "selfLink": "/a",
    },
    "status": {"phase": "Running"},
}  # fmt: skip


def labelled(pod: Any) -> Any:
    names = {name: pod.metadata[name] for name in ("name", "namespace")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**names, "labels": {"a": "b"}}, "spec": pod.spec}


def copied(pod: Any) -> Any:
    return {**pod, "metadata": {**pod.metadata, "labels": {"a": "b"}}}


def changed(pod: Any) -> None:
    pod.metadata.labels = {"a": "b"}


def changed_and_returned(pod: Any) -> Any:
    pod.metadata.labels = {"a": "b"}
    return pod


def assigned(pod: Any) -> None:
    pod.metadata = {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "labels": {"a": "b"}}


def written_anew(pod: Any) -> None:
    new = labelled(pod)
    pod.clear()
    pod.update(new)


@pytest.mark.parametrize("function", [labelled, copied, changed, changed_and_returned, assigned, written_anew])
def test_the_members_of_the_apiserver_stay_in_an_object_that_a_rule_writes_anew(function: Any) -> None:
    answer = mutate("v1", "Pod", on="UPDATE")(function).review(STORED, operation="UPDATE", old=STORED)
    assert {one["path"].split("/")[2] for one in answer.patch} <= {"labels", "annotations"}
    assert (answer.object["metadata"]["labels"], answer.mistakes) == ({"a": "b"}, ())
    new = {**POD, "metadata": {**POD["metadata"], "managedFields": [{"manager": "a"}]}}
    answer = mutate("v1", "Pod")(function).review(new)
    assert "/metadata/labels" in [one["path"] for one in answer.patch]
    assert (answer.object["metadata"]["managedFields"], answer.mistakes) == ([{"manager": "a"}], ())


@pytest.mark.parametrize(
    "member", ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "name"]
)
@pytest.mark.parametrize("removes", [True, False], ids=["removes", "sets"])
def test_a_rule_that_changes_a_member_of_the_apiserver_has_failed(member: str, *, removes: bool) -> None:
    @mutate("v1", "Pod", on="UPDATE", failure_policy="Fail")
    def changes(pod: Any) -> None:
        if removes and pod.metadata[member] is not None:
            del pod.metadata[member]
        else:
            pod.metadata[member] = "x"

    answer = changes.review(STORED, operation="UPDATE", old=STORED)
    assert f"the rule changed /metadata/{member}, which no webhook may change" in answer.message
    assert answer.patch == ()


async def test_a_plain_function_can_be_awaited_too() -> None:
    request = build_request({**POD, "metadata": {"name": "b"}}, None, operation="CREATE")
    assert (await default_seccomp.ask(request, FIND_NOTHING, {}))[0].patch


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_failing_rule_names_file_and_line_and_refuses(kind: str) -> None:
    def fails(pod: Any) -> None:
        del pod.spec["missing"]

    async def fails_later(pod: Any) -> None:
        del pod.spec["missing"]

    one = validate("v1", "Pod")(fails if kind == "plain" else fails_later)
    answer = one.review(POD)
    line = one.function.__code__.co_firstlineno + 1
    assert (answer.allowed, answer.code) == (False, 500)
    assert answer.message == (
        f"the rule {one.name} failed, and failurePolicy Fail refuses the object: test_rule_call.py:{line}: KeyError: 'missing'"
    )


@pytest.mark.parametrize("error", [BaseException("x"), GeneratorExit(), asyncio.CancelledError(), KeyboardInterrupt()])
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_no_error_of_a_rule_escapes(error: BaseException, kind: str) -> None:
    def fails(pod: Any) -> None:
        raise error

    async def fails_later(pod: Any) -> None:
        raise error

    one: Any = validate("v1", "Pod")(fails if kind == "plain" else fails_later)
    request = build_request(POD, None, operation="CREATE")
    answers = list[Any]()
    # Ctrl+C reaches the main thread alone, so a rule in another one has raised the error itself.
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(one.ask(request, FIND_NOTHING, {}))[0]))
    thread.start()
    thread.join()
    assert [answer.code for answer in answers] == [500]
    assert type(error).__name__ in answers[0].message


async def find_refusals(*errors: Exception) -> None:
    async def find(error: Exception) -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        for error in errors:
            group.create_task(find(error))


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_refusal_in_a_task_group_is_a_refusal(policy: str) -> None:
    @validate("v1", "Pod", failure_policy=policy)
    async def refuses() -> None:
        await find_refusals(Denied("first", code=422), Denied("second"))

    answer = refuses.review(POD)
    assert (answer.allowed, answer.code, answer.message) == (False, 422, "first")


def test_a_failure_in_a_task_group_is_a_failure_with_its_reason() -> None:
    @validate("v1", "Pod")
    async def fails() -> None:
        await find_refusals(Denied("no"), ValueError("a reason"))

    answer = fails.review(POD)
    assert answer.code == 500
    assert answer.message.endswith(": ValueError: a reason")


def test_ctrl_c_ends_a_test_of_a_rule() -> None:
    @validate("v1", "Pod")
    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    # A process in the background of a shell ignores the signal.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted.review(POD)
    finally:
        signal.signal(signal.SIGINT, former)


def test_a_rule_that_hangs_in_a_test_has_the_answer_of_a_server() -> None:
    release = threading.Event()

    @validate("v1", "Pod", timeout=1)
    def hangs() -> None:
        release.wait()

    @mutate("v1", "Pod", timeout=1)
    async def waits() -> None:
        await asyncio.Event().wait()

    refused, admitted = hangs.review(POD), waits.review(POD)
    release.set()
    assert (refused.allowed, refused.message.endswith(": no answer after 1 s")) == (False, True)
    assert (admitted.allowed, admitted.warnings[0].endswith(": no answer after 1 s")) == (True, True)


def test_a_call_that_hangs_ends_no_other_call_of_the_same_thread() -> None:
    release = threading.Event()

    @validate("v1", "Pod")
    def first(warnings: Any) -> None:
        warnings.append("first")

    @validate("v1", "Pod", timeout=1)
    def hangs(warnings: Any) -> None:
        release.wait()

    @validate("v1", "Pod")
    async def last(warnings: Any) -> None:
        warnings.append("last")

    request = build_request(POD, operation="CREATE")
    found = [review for _, _, review in ask_in_order([first, hangs, last], request, Surroundings())]
    release.set()
    assert [(one.allowed, one.warnings) for one in found] == [(True, ("first",)), (False, ()), (True, ("last",))]


def test_an_error_with_an_empty_text_has_its_class_alone() -> None:
    @validate("v1", "Pod")
    def fails(pod: Any) -> None:
        raise TimeoutError

    assert fails.review(POD).message.endswith(": TimeoutError")


def test_a_failing_rule_with_policy_ignore_admits_with_a_warning() -> None:
    @mutate("v1", "Pod")
    def fails() -> None:
        raise SystemExit(3)

    answer = fails.review(POD)
    assert answer.allowed
    assert answer.warnings[0].startswith(
        "the rule fails failed, and failurePolicy Ignore admits the object: test_rule_call.py:"
    )
    assert answer.warnings[0].endswith(": SystemExit: 3")


def test_an_expression_decides_with_its_message() -> None:
    @validate("v1", "Pod", expression="has(object.metadata.labels)", message="a Pod needs labels")
    def has_labels() -> None:
        """Every Pod has labels."""
        raise AssertionError

    assert has_labels.review({**POD, "metadata": {"name": "a"}}).message == "a Pod needs labels"
    assert has_labels.review({**POD, "metadata": {"name": "a", "labels": {"a": "b"}}}).allowed
    # kube-apiserver drops an empty map.
    assert not has_labels.review({**POD, "metadata": {"name": "a", "labels": {}}}).allowed


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("object.metadata.missing == 'x'", "EvaluationError: expression"),
        ("authorizer.group('').resource('pods').check('get').allowed()", "EvaluationError: expression"),
        ("namespaceObject == null", "no such attribute(s): namespaceObject"),
    ],
)
def test_an_expression_without_a_result_fails(expression: str, problem: str) -> None:
    @validate("v1", "Pod", expression=expression, message="no")
    def checks() -> None:
        pass

    answer = checks.review(POD)
    assert answer.code == 500
    assert problem in answer.message


async def test_an_expression_decides_for_a_coroutine_too() -> None:
    @validate("v1", "Pod", expression="false", message="no")
    async def refuses() -> None:
        pass

    request = build_request(POD, None, operation="CREATE")
    assert (await refuses.ask(request, FIND_NOTHING, {}))[0].message == "no"
    assert not refuses.is_async


def test_the_place_is_that_of_the_function() -> None:
    assert needs_owner.place == f"test_rule_in_tests.py:{needs_owner.function.__code__.co_firstlineno}"
