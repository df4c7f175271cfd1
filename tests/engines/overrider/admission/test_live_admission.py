"""Reviews of overriders and subjects with the answers of kube-apiserver to dry runs."""

from typing import Any

import msgspec
import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.engines.overrider.admission.live_admission import LiveAdmission
from fleethook.engines.overrider.admission.server_dry_run import ServerDryRun
from fleethook.engines.overrider.admission.subject_admission import Policy
from fleethook.model.admission import AdmissionRequest, Response, allowed
from fleethook.work.slice_runner import Slices
from tests.builders import container, entry, overrider, pod_template, pool, request, store_of, yurt_app_set

SUBJECT = yurt_app_set(template=pod_template(containers=[container("app")]), pools=[pool("a"), pool("b")])
RULE = overrider(entry("*", items=[{"args": {"containerName": "app", "args": ["x"]}}]))
FIELD = "spec.template.spec.containers[0].args[0]"
REFUSED = APIError(422, "Invalid", "is invalid", [(FIELD, "Invalid value: x")])
TEXT = "kube-apiserver refuses the Deployment: /spec/template/spec/containers/0/args/0: Invalid value: x"


def live(
    *errors: Exception | None,
    policy: Policy = "warn",
    objects: tuple[dict[str, Any], ...] = (SUBJECT, RULE),
    limit: int = 4,
) -> LiveAdmission:
    answers = [*errors]

    async def send(_cluster: str, _path: str, _workload: dict[str, Any]) -> None:
        if answers and (error := answers.pop(0)) is not None:
            raise error

    return LiveAdmission(ServerDryRun(send, limit=limit, seconds=60), store_of(*objects), Slices(), policy)


def edited(subject: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(subject))
    changed["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"]["priority"] = 1
    return changed


def edit() -> AdmissionRequest:
    kind = {"group": "apps.openyurt.io", "version": "v1alpha1", "kind": "YurtAppSet"}
    return msgspec.structs.replace(
        request(edited(SUBJECT), "UPDATE", SUBJECT), kind=msgspec.convert(kind, type(request(SUBJECT).kind))
    )


async def test_an_overrider_is_refused_with_the_message_and_its_entry() -> None:
    asked = request(RULE)
    answer = await live(REFUSED).check_overrider(asked, allowed(warnings=["w"]))
    assert answer is not None
    assert not answer.allowed
    assert [(cause.field, cause.message) for cause in answer.causes] == [
        ("entries[0].items[0]", f"node pool a: {TEXT}")
    ]
    assert answer.warnings == ("w",)


@pytest.mark.parametrize(
    ("asked", "response", "limit"),
    [
        (request(RULE), allowed(), 4),
        (request(RULE, "UPDATE", RULE), allowed(), 4),
        (request(RULE), Response(allowed=False), 4),
        (request(RULE), allowed(), 0),
    ],
)
async def test_other_answers_stay(asked: AdmissionRequest, response: Response, limit: int) -> None:
    errors = () if limit and response.allowed and asked.operation == "CREATE" else (REFUSED,)
    assert await live(*errors, limit=limit).check_overrider(asked, response) is None


async def test_an_overrider_without_its_subject_sends_nothing() -> None:
    asked = request(RULE)
    assert await live(REFUSED, objects=()).check_overrider(asked, allowed()) is None


async def test_what_could_not_be_checked_is_a_warning() -> None:
    asked = request(RULE)
    answer = await live(APIError(429, "TooManyRequests", "later")).check_overrider(asked, allowed())
    assert answer is not None
    assert answer.allowed
    assert "later" in answer.warnings[0]


async def test_an_edit_of_a_subject_follows_the_policy() -> None:
    asked = edit()
    warned = await live(REFUSED).check_subject(asked, allowed())
    refused = await live(REFUSED, policy="refuse").check_subject(asked, allowed())
    assert warned is not None
    assert warned.warnings == (f"YurtAppOverrider default/demo1: entries[0].items[0]: node pool a: {TEXT}",)
    assert refused is not None
    assert not refused.allowed


async def test_an_edit_that_breaks_nothing_new_is_admitted() -> None:
    asked = edit()
    # The answers to the edited workload and to that of the template, and then to those before the edit.
    answer = await live(REFUSED, None, REFUSED, None, policy="refuse").check_subject(asked, allowed())
    assert answer is not None
    assert answer.allowed
    assert await live(REFUSED, objects=(SUBJECT,)).check_subject(asked, allowed()) is None


async def test_reviews_without_a_usable_subject_stay() -> None:
    broken: tuple[Any, ...] = (None, {}, {"kind": "YurtAppSet", "spec": {}}, {"kind": "YurtAppSet", "metadata": {}})
    for document in broken:
        asked = request(document, "UPDATE", SUBJECT, kind="YurtAppSet")
        assert await live(REFUSED).check_subject(asked, allowed()) is None
    assert await live(REFUSED).check_subject(request(None, "DELETE", SUBJECT), allowed()) is None
