"""Dry runs at kube-apiserver; tests/e2e/test_server_dry_run.py sends them to a real one."""

import asyncio
from typing import Any

import msgspec
import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.engines.overrider.admission.server_dry_run import (
    RIGHT,
    LiveAdmission,
    ServerDryRun,
    Trials,
    select_trials,
    to_pointer,
)
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.missing_pools import SubjectPools
from fleethook.engines.overrider.subject.subject_and_pools import Subject
from fleethook.model.admission import AdmissionRequest, Response, allowed
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.work.threads_and_gc import Worker
from tests.builders import container, entry, overrider, patch, pod_template, pool, request, store_of, yurt_app_set

POOLS = [f"p{number}" for number in range(40)]
SUBJECT = Subject(
    YURT_APP_SET,
    yurt_app_set(template=pod_template(containers=[container("app")]), pools=[pool(name) for name in POOLS]),
    "",
)
RULE = overrider(entry("*", patches=[patch("add", "/spec/template/spec/containers/0/args", ["{{nodepool}}"])]))
FIELD = "spec.template.spec.containers[0].args[0]"


class Server:
    def __init__(self, *errors: Exception | None, wait: bool = False) -> None:
        self.errors = [*errors]
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.wait = wait

    async def send(self, cluster: str, path: str, workload: dict[str, Any]) -> None:
        self.sent.append((cluster, path, workload))
        if self.wait:
            await asyncio.Event().wait()
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


def select(rule: dict[str, Any] = RULE, *, limit: int = 4) -> Trials:
    return select_trials(rule, SUBJECT, SubjectPools(POOLS, complete=True, node_pools={}), limit=limit)


def invalid(*causes: tuple[str, str]) -> APIError:
    return APIError(422, "Invalid", "is invalid", causes)


async def check(server: Server, selected: Trials | None = None, *, seconds: float = 60) -> list[Finding]:
    return await ServerDryRun(server.send, limit=4, seconds=seconds).check(selected or select(), SUBJECT)


async def test_a_plan_of_many_pools_is_sent_once_without_its_owner() -> None:
    server = Server()
    assert await check(server) == []
    ((cluster, path, workload),) = server.sent
    assert (cluster, path) == ("", "/apis/apps/v1/namespaces/default/deployments")
    assert workload["spec"]["template"]["spec"]["containers"][0]["args"] == ["p0"]
    assert "ownerReferences" not in workload["metadata"]
    assert workload["metadata"]["generateName"] == "demo-p0-"


async def test_pools_without_an_entry_send_nothing() -> None:
    server = Server()
    assert await check(server, select(overrider(entry("none", patches=RULE["entries"][0]["patches"])))) == []
    assert server.sent == []


async def test_the_number_of_distinct_plans_is_limited() -> None:
    paused = [entry(*POOLS[: number * 3 + 1], patches=[patch_labels(number)]) for number in range(8)]
    server = Server()
    found = await check(server, select(overrider(*paused)))
    assert len(server.sent) == 4
    assert [one.text for one in found] == ["kube-apiserver checked 4 distinct workloads, and not the others"]


def patch_labels(number: int) -> dict[str, Any]:
    return {"operation": "add", "path": f"/metadata/labels/n{number}", "value": "x"}


async def test_a_refusal_has_the_message_of_kube_apiserver_with_entry_and_pointer() -> None:
    (found,) = await check(Server(invalid((FIELD, "Invalid value: no"))))
    assert (found.level, found.field) == ("error", "entries[0].patches[0]")
    assert found.message == (
        "node pool p0: kube-apiserver refuses the Deployment: /spec/template/spec/containers/0/args/0: Invalid value: no"
    )


async def test_a_refusal_of_the_template_alone_is_none_of_the_overrider() -> None:
    server = Server(invalid((FIELD, "a"), ("spec.x", "b")), invalid(("spec.x", "b")))
    (found,) = await check(server)
    assert found.message.endswith(": a")
    assert "args" not in server.sent[1][2]["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (APIError(403, "Forbidden", "exceeded quota: q"), "exceeded quota: q"),
        (APIError(400, "BadRequest", 'admission webhook "x" does not support dry run'), "does not support dry run"),
        (APIError(404, "NotFound", "namespaces not found"), "namespaces not found"),
        (APIError(422, "Invalid", "without causes"), "without causes"),
        (UnreachableError("refused"), "refused"),
    ],
)
async def test_any_other_answer_is_a_warning(error: Exception, text: str) -> None:
    (found,) = await check(Server(error))
    assert (found.code, found.level) == ("not-checked", "warning")
    assert found.message.startswith("not checked by kube-apiserver (Deployment of node pool p0): ")
    assert text in found.message


async def test_without_an_answer_in_time_the_rules_decide() -> None:
    (found,) = await check(Server(wait=True), seconds=0.001)
    assert found.code == "not-checked"
    assert found.message.endswith("no answer in time")


async def test_a_missing_right_is_reported_once() -> None:
    refused = APIError(403, "Forbidden", 'User "x" cannot create resource "deployments"')
    server = Server(refused, refused)
    dry_run = ServerDryRun(server.send, limit=4)
    first, second = [await dry_run.check(select(), SUBJECT) for _ in range(2)]
    assert [one.message for one in first] == [f"not checked by kube-apiserver, because fleethook lacks {RIGHT}"]
    assert second == []
    assert len(server.sent) == 1


@pytest.mark.parametrize(
    ("field", "pointer"),
    [
        ("spec.template.spec.containers[0].ports[1].name", "/spec/template/spec/containers/0/ports/1/name"),
        ("spec.resources.limits[example.com/gpu]", "/spec/resources/limits/example.com~1gpu"),
        ("", ""),
    ],
)
def test_fields_become_pointers(field: str, pointer: str) -> None:
    assert to_pointer(field) == pointer


APPS = yurt_app_set(template=pod_template(containers=[container("app")]), pools=[pool("a"), pool("b")])


ARGS = overrider(entry("*", patches=[patch("add", "/spec/template/spec/containers/0/args", ["x"])]))


REFUSED = APIError(422, "Invalid", "is invalid", [(FIELD, "Invalid value: x")])


TEXT = "kube-apiserver refuses the Deployment: /spec/template/spec/containers/0/args/0: Invalid value: x"


def live(
    *errors: Exception | None,
    objects: tuple[dict[str, Any], ...] = (APPS, ARGS),
    limit: int = 4,
) -> LiveAdmission:
    answers = [*errors]

    async def send(_cluster: str, _path: str, _workload: dict[str, Any]) -> None:
        if answers and (error := answers.pop(0)) is not None:
            raise error

    return LiveAdmission(ServerDryRun(send, limit=limit, seconds=60), store_of(*objects), Worker())


def edited(subject: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(subject))
    changed["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"]["priority"] = 1
    return changed


def edit() -> AdmissionRequest:
    kind = {"group": "apps.openyurt.io", "version": "v1alpha1", "kind": "YurtAppSet"}
    return msgspec.structs.replace(
        request(edited(APPS), "UPDATE", APPS), kind=msgspec.convert(kind, type(request(APPS).kind))
    )


async def test_an_overrider_is_refused_with_the_message_and_its_entry() -> None:
    asked = request(ARGS)
    answer = await live(REFUSED).check_overrider(asked, allowed(warnings=["w"]))
    assert answer is not None
    assert not answer.allowed
    assert [(cause.field, cause.message) for cause in answer.causes] == [
        ("entries[0].patches[0]", f"node pool a: {TEXT}")
    ]
    assert answer.warnings == ("w",)


@pytest.mark.parametrize(
    ("asked", "response", "limit"),
    [
        (request(ARGS), allowed(), 4),
        (request(ARGS, "UPDATE", ARGS), allowed(), 4),
        (request(ARGS), Response(allowed=False), 4),
        (request(ARGS), allowed(), 0),
    ],
)
async def test_other_answers_stay(asked: AdmissionRequest, response: Response, limit: int) -> None:
    errors = () if limit and response.allowed and asked.operation == "CREATE" else (REFUSED,)
    assert await live(*errors, limit=limit).check_overrider(asked, response) is None


async def test_an_overrider_without_its_subject_sends_nothing() -> None:
    asked = request(ARGS)
    assert await live(REFUSED, objects=()).check_overrider(asked, allowed()) is None


async def test_what_could_not_be_checked_is_a_warning() -> None:
    asked = request(ARGS)
    answer = await live(APIError(429, "TooManyRequests", "later")).check_overrider(asked, allowed())
    assert answer is not None
    assert answer.allowed
    assert "later" in answer.warnings[0]


async def test_an_edit_of_a_subject_is_admitted_with_a_warning() -> None:
    asked = edit()
    warned = await live(REFUSED).check_subject(asked, allowed())
    assert warned is not None
    assert warned.allowed
    assert warned.warnings == (f"YurtAppOverrider default/demo1: entries[0].patches[0]: node pool a: {TEXT}",)
    assert await live(REFUSED, objects=(APPS,)).check_subject(asked, allowed()) is None
