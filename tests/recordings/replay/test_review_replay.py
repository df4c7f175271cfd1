"""Reviews that a server recorded, replayed with the same objects and with others."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import Fleethook
from fleethook.recordings.recording_format import CallName, RecordedCall, RecordEntry, read_entries
from fleethook.recordings.replay.decision_changes import ChangedDecision, ReviewedObject
from fleethook.recordings.replay.review_replay import Replayed, Report, ReviewCalls, replay_reviews
from fleethook.settings import Settings
from tests.builders import entry, image, overrider, patch, workload, yurt_app_set
from tests.engines.dispatch.builders import binding, configuration, export, namespace, review, webhook, widget
from tests.engines.dispatch.webhook_server import Webhooks, allow, convert, converting, deny, label, webhooks
from tests.hook_server import run_hook
from tests.recordings.recordings import MUTATE, header, line
from tests.recordings.replaying import Recording, kinds, recording, replay

BOUND = (binding("ws3", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org"))
VALIDATE = "/clusters/ws3/validate"
SUBJECT = yurt_app_set()


def admission(document: Any, operation: str = "CREATE", uid: str = "u-1", **request: Any) -> dict[str, Any]:
    kind = {"group": "apps", "version": "v1", "kind": document["kind"]}
    known = {"uid": uid, "operation": operation, "kind": kind, "namespace": "default", "object": document}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**known, **request}}


def images(claim: str) -> dict[str, Any]:
    return overrider(entry("hangzhou", items=[image("nginx", claim)]))


async def record_workloads(*documents: dict[str, Any]) -> list[RecordEntry]:
    async with recording(*documents) as made:
        await made.ask(MUTATE, admission(workload()))
        await made.ask(MUTATE, admission(workload(pool="beijing"), uid="u-2"))
    return made.entries()


async def test_the_same_objects_give_the_same_outcome() -> None:
    entries = await record_workloads(SUBJECT, images("nginx:2.0"))
    assert kinds(await replay(entries, [SUBJECT, images("nginx:2.0")])) == [(), ()]


async def test_a_changed_overrider_changes_the_workloads_of_its_pool_only() -> None:
    entries = await record_workloads(SUBJECT, images("nginx:2.0"))
    first, second = await replay(entries, [SUBJECT, images("nginx:3.0")])
    assert second.change is None
    assert first.change is not None
    assert first.change.kinds == ("object",)
    assert (first.change.about, first.change.uid, first.change.line) == ("YurtAppSet default/demo", "u-1", 2)
    before, after = first.change.differences[0][1:]
    assert before["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2.0"
    assert after["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:3.0"


async def test_a_denial_is_a_change_of_the_verdict() -> None:
    entries = await record_workloads(SUBJECT, images("nginx:2.0"))
    refusing = overrider(entry("hangzhou", patches=[patch("remove", "/spec/nothing")]))
    found = await replay(entries, [SUBJECT, refusing])
    assert kinds(found) == [("verdict", "code", "message"), ()]


async def test_a_body_that_is_no_review_is_refused_again() -> None:
    async with recording(SUBJECT) as made:
        for body in (b"{", b"\xff\xfe", b'{"text":"a"}', b""):
            assert (await made.ask(MUTATE, body)).status == 400
    assert kinds(await replay(made.entries(), [SUBJECT])) == [()] * 4


@pytest.mark.parametrize("status", [401, 403, 404, 429, 503])
async def test_answers_that_depend_on_the_server_are_not_compared(status: int) -> None:
    found = await replay(entries_of(line({}, {"kind": "Status"}, status=status)), [])
    assert found[0].skipped == f"the server answered HTTP {status}"


def entries_of(*records: bytes) -> list[RecordEntry]:
    text = b"".join(one + b"\n" for one in (header(), *records))
    return [one for one in read_entries(io.BytesIO(text), "file") if isinstance(one, RecordEntry)]


# --- dispatching


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        yield made


def hook(server: Webhooks, path: str, name: str, **members: Any) -> dict[str, Any]:
    return webhook(name, clientConfig=server.client_config(path), **members)


async def record_dispatch(
    server: Webhooks, *hooks: dict[str, Any], verb: str = "validate", **members: Any
) -> Recording:
    phase = "mutating" if verb == "mutate" else "validating"
    async with recording(*BOUND, configuration("ws1", phase, *hooks), *members.pop("objects", ())) as made:
        assert (await made.ask(f"/clusters/ws3/{verb}", review(**members))).status == 200
    return made


def objects(*hooks: dict[str, Any], phase: str = "validating") -> list[dict[str, Any]]:
    return [*BOUND, configuration("ws1", phase, *hooks)]


async def test_webhooks_answer_as_recorded_and_are_not_called(server: Webhooks) -> None:
    server.answers["/w"] = deny("too large", code=403)
    one = hook(server, "/w", "size.example.org")
    made = await record_dispatch(server, one)
    assert (len(server.calls), kinds(await replay(made.entries(), objects(one))), len(server.calls)) == (1, [()], 1)


async def test_a_chain_of_patches_is_replayed(server: Webhooks) -> None:
    server.answers |= {"/a": label("a"), "/b": label("b")}
    hooks = [hook(server, "/a", "a.example.org", reinvocationPolicy="IfNeeded"), hook(server, "/b", "b.example.org")]
    made = await record_dispatch(server, *hooks, verb="mutate")
    assert len(made.reviews[0].calls) == 3
    assert kinds(await replay(made.entries(), objects(*hooks, phase="mutating"))) == [()]


@pytest.mark.parametrize(("policy", "allowed"), [("Fail", False), ("Ignore", True)])
async def test_a_failed_call_fails_again(server: Webhooks, policy: str, allowed: bool) -> None:
    one = hook(server, "/missing", "w.example.org", failurePolicy=policy)
    made = await record_dispatch(server, one)
    assert json.loads(made.reviews[0].answer)["response"]["allowed"] is allowed
    assert kinds(await replay(made.entries(), objects(one))) == [()]
    other = "Ignore" if policy == "Fail" else "Fail"
    changed = await replay(made.entries(), objects({**one, "failurePolicy": other}))
    assert kinds(changed) == [("verdict", "code", "message")]


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_new_webhook_makes_a_review_undecidable(server: Webhooks, policy: str) -> None:
    server.answers["/w"] = allow
    one = hook(server, "/w", "w.example.org")
    made = await record_dispatch(server, one)
    new = hook(server, "/new", "new.example.org", failurePolicy=policy)
    (found,) = await replay(made.entries(), objects(one, new))
    assert found.change is not None
    assert found.change.kinds == ("undecidable",)
    assert found.change.missing == (("webhook hooks/new.example.org", "no recorded answer"),)
    assert found.change.about == "webhook hooks/new.example.org"
    assert found.change.differences == ()


async def test_a_webhook_that_is_asked_more_often_makes_a_review_undecidable(server: Webhooks) -> None:
    server.answers |= {"/a": label("a"), "/b": label("b")}
    once = hook(server, "/a", "a.example.org")
    later = hook(server, "/b", "b.example.org")
    made = await record_dispatch(server, once, later, verb="mutate")
    twice = {**once, "reinvocationPolicy": "IfNeeded"}
    (found,) = await replay(made.entries(), objects(twice, later, phase="mutating"))
    assert found.change is not None
    assert found.change.missing == (("webhook hooks/a.example.org", "too few recorded answers"),)


async def test_a_webhook_that_is_not_asked_any_more_is_named(server: Webhooks) -> None:
    server.answers |= {"/w": allow, "/no": deny("no", code=403)}
    allowing, denying = hook(server, "/w", "w.example.org"), hook(server, "/no", "no.example.org")
    made = await record_dispatch(server, allowing, denying)
    (without_denial,) = await replay(made.entries(), objects(allowing))
    assert without_denial.change is not None
    assert without_denial.change.kinds == ("verdict", "code", "message")
    assert without_denial.change.about == "webhook hooks/no.example.org"
    (without_effect,) = await replay(made.entries(), objects(denying))
    assert without_effect.change is None
    assert [str(one) for one in without_effect.unasked] == ["webhook hooks/w.example.org"]


async def test_the_labels_of_a_namespace_come_from_the_record_if_the_source_lacks_it(server: Webhooks) -> None:
    server.answers["/w"] = deny("no", code=403)
    one = hook(server, "/w", "w.example.org", namespaceSelector={"matchLabels": {"tier": "gold"}})
    gold = namespace("ws3", tier="gold")
    made = await record_dispatch(server, one, objects=[gold])
    assert kinds(await replay(made.entries() * 2, objects(one))) == [(), ()]
    silver = await replay(made.entries(), [*objects(one), namespace("ws3", tier="silver")])
    assert kinds(silver) == [("verdict", "code", "message")]


async def test_the_caller_that_returned_is_refused_again(server: Webhooks) -> None:
    async with recording(*objects(hook(server, "/w", "w.example.org"))) as made:
        await made.ask(VALIDATE, review(), fleethook_hops="1")
    assert json.loads(made.reviews[0].answer)["response"]["status"]["code"] == 508
    assert kinds(await replay(made.entries(), objects(hook(server, "/w", "w.example.org")))) == [()]


async def test_explanations_are_compared(server: Webhooks) -> None:
    one = hook(server, "/w", "w.example.org")
    async with recording(*objects(one)) as made:
        await made.ask("/clusters/ws3/explain", review())
    assert kinds(await replay(made.entries(), objects(one))) == [()]
    assert kinds(await replay(made.entries(), objects())) == [("result",)]


@pytest.mark.parametrize("works", [True, False])
async def test_conversion_webhooks_answer_as_recorded(server: Webhooks, works: bool) -> None:
    server.answers["/w"] = label("a")
    if works:
        server.answers["/convert"] = convert()
    documents = converting(server, "mutating")
    async with recording(*documents) as made:
        answer = (await made.ask("/clusters/ws1/mutate", review())).json()
    assert answer["response"]["allowed"] is works
    before = len(server.calls)
    assert kinds(await replay(made.entries(), documents)) == [()]
    assert len(server.calls) == before


async def test_a_new_conversion_makes_a_review_undecidable(server: Webhooks) -> None:
    server.answers |= {"/w": label("a"), "/convert": convert()}
    async with recording() as made:
        await made.ask("/clusters/ws1/mutate", review())
    (found,) = await replay(made.entries(), converting(server, "mutating"))
    assert found.change is not None
    assert found.change.missing == (("webhook conversion/example.org/v1/Widget", "no recorded answer"),)


# --- interpreting


def interpreter(hook: Any, **members: Any) -> dict[str, Any]:
    client = {"url": f"https://127.0.0.1:{hook.port}/hook", "caBundle": hook.ca_bundle}
    rule = {
        "operations": ["*"],
        "apiGroups": ["example.org"],
        "apiVersions": ["*"],
        "resources": ["widgets"],
        "scope": "*",
    }
    one = {"name": "w.example.org", "clientConfig": client, "rules": [rule], "exploreReviewVersions": ["v1alpha1"]}
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceExploringWebhookConfiguration",
        "metadata": {"name": "widgets"},
        "webhooks": [{**one, **members}],
    }


def question(operation: str = "ExploreHealthy", **request: Any) -> dict[str, Any]:
    kind = {"group": "example.org", "version": "v1", "kind": "Widget"}
    known = {"uid": "u-1", "kind": kind, "name": "b", "namespace": "default", "operation": operation}
    review = {"request": {**known, "object": widget(), **request}}
    return {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ExploreReview", **review}


async def test_webhooks_of_interpreters_answer_as_recorded(tmp_path: Path) -> None:
    async with run_hook(tmp_path) as asked:
        made = interpreter(asked)
        async with recording(made) as running:
            answer = (await running.ask("/explore", question())).json()
        assert answer["response"]["healthy"] is True
        entries = running.entries()
        assert kinds(await replay(entries, [made])) == [()]
        assert len(asked.reviews) == 1
    (found,) = await replay(entries, [])
    assert found.change is not None
    assert found.change.kinds == ("verdict", "code", "message", "result")
    assert [str(one) for one in found.unasked] == ["webhook widgets/w.example.org"]


async def test_a_new_interpreter_makes_a_review_undecidable(tmp_path: Path) -> None:
    async with recording() as running:
        await running.ask("/explore", question())
    async with run_hook(tmp_path) as asked:
        (found,) = await replay(running.entries(), [interpreter(asked)])
        assert not asked.reviews
    assert found.change is not None
    assert found.change.kinds == ("undecidable",)


def script(value: str) -> dict[str, Any]:
    text = f"function InterpretHealth(observedObj) return {value} end"
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "widgets"},
        "spec": {
            "target": {"apiVersion": "example.org/v1", "kind": "Widget"},
            "customizations": {"healthInterpretation": {"luaScript": text}},
        },
    }


async def test_scripts_run_again_so_that_a_changed_one_shows() -> None:
    async with recording(script("true")) as running:
        assert (await running.ask("/explore", question())).json()["response"]["healthy"] is True
    assert kinds(await replay(running.entries(), [script("true")])) == [()]
    assert kinds(await replay(running.entries(), [script("false")])) == [("result",)]


# --- running


async def test_a_cancellation_keeps_the_results_so_far() -> None:
    entries = await record_workloads(SUBJECT)
    found: list[Replayed] = []

    async def run() -> None:
        await replay_reviews(entries, Fleethook(Settings(), log=None).find_endpoint, found.append)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(found) == 2


(ENTRY,) = entries_of(line({}, {}))


def change(
    name: str = "a", *, about: str = "YurtAppSet default/demo", kinds: tuple[str, ...] = ("object",)
) -> Replayed:
    subject = ReviewedObject("Deployment.apps", "default", name, "UPDATE", about)
    return Replayed(ENTRY, ChangedDecision(kinds, MUTATE, "", about, subject, "u", "", "file", 1, False, (), ()))


def report_of(*results: Replayed) -> Report:
    report = Report()
    for one in results:
        report.add(one)
    return report


def test_changes_of_one_cause_are_one_group_with_the_first_example() -> None:
    report = report_of(change("a"), change("b"), change("c", about="another"))
    assert [(group.count, group.example.subject.name) for group in report.groups.values()] == [(2, "a"), (1, "c")]
    assert (report.changed, report.passes) == (3, False)


def test_undecidable_reviews_count_apart() -> None:
    report = report_of(change(kinds=("undecidable",)), Replayed(ENTRY), Replayed(ENTRY, skipped="because"))
    assert (report.undecidable, report.changed, report.same, report.reviews) == (1, 0, 1, 3)
    assert report.skipped == {"because": 1}
    assert not report.passes


def test_webhooks_that_are_not_asked_are_no_change() -> None:
    name = CallName("webhook", "hooks", "w.example.org")
    report = report_of(Replayed(ENTRY, unasked=[name]), Replayed(ENTRY, unasked=[name]))
    assert (report.unasked, report.passes) == ({name: 2}, True)


def test_a_route_that_is_unknown_is_a_problem_of_its_record() -> None:
    report = report_of(Replayed(RecordEntry("file", 7, ENTRY.record), unknown_route=True))
    assert [one.place for one in report.problems] == ["file:7"]


CALL = RecordedCall(kind="webhook", name="w", key="k", configuration="c", cluster="ws1")
NAME = CallName("webhook", "c", "w")


def take(calls: ReviewCalls, name: str = "w", key: str = "k", cluster: str = "ws1") -> RecordedCall | None:
    return calls.take("webhook", name, key, cluster=cluster, configuration="c")


def test_answers_with_one_key_are_taken_in_their_order() -> None:
    second = RecordedCall(kind="webhook", name="w", key="k", configuration="c", cluster="ws1", error="timeout")
    calls = ReviewCalls([CALL, second])
    assert (take(calls), take(calls)) == (CALL, second)
    assert calls.missing == {}


def test_a_call_that_was_recorded_less_often_says_so_and_keeps_the_first_reason() -> None:
    calls = ReviewCalls([CALL])
    take(calls)
    assert take(calls) is None
    calls.note_missing(NAME, "later")
    assert calls.missing == {NAME: "too few recorded answers"}
