import asyncio
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.engines.overrider.subject.announcements import (
    MAX_ANNOTATION_BYTES,
    Announcement,
    announce_overrider,
    read_announcements,
    write_announcements,
)
from fleethook.engines.overrider.subject.match_condition_texts import SelectedSubjects, SubjectName
from fleethook.model.admission import Response, allowed, denied
from tests.builders import entry, overrider, request
from tests.engines.overrider.subject.configuration_server import DEMO, NEW, OTHER, Server, announcer, configuration
from tests.waiting import settled


def closed(*subjects: Any) -> SelectedSubjects:
    return SelectedSubjects(frozenset(subjects))


async def test_announce_adds_the_subject_of_a_new_overrider() -> None:
    server = Server(configuration())
    server.add(OTHER)
    await announcer(server).announce(NEW)
    assert server.listed() == {DEMO, OTHER}
    await announcer(server).announce(NEW)
    assert len(server.written) == 1


async def test_an_announcement_keeps_the_subjects_that_only_the_leader_knows() -> None:
    """The watch of this replica is late."""
    server = Server(configuration())
    far = SubjectName("far", "YurtAppSet", "listed")
    server.add(far)
    await announcer(server).announce(NEW)
    assert server.selection() == closed(far, DEMO)


async def test_announce_waits_for_the_watch() -> None:
    server, seen = Server(configuration()), asyncio.Event()
    server.add()
    asked: list[str] = []

    async def wait(resource_version: str) -> None:
        asked.append(resource_version)
        await seen.wait()

    announcing = asyncio.create_task(announcer(server, seen=wait).announce(NEW))
    await settled(lambda: asked)
    assert [asked, server.listed(), announcing.done()] == [["4"], {DEMO}, False]
    seen.set()
    await announcing
    await announcer(server, seen=wait).announce(NEW)
    assert asked == ["4"]


async def test_reviews_of_one_replica_take_turns() -> None:
    server = Server(configuration())
    server.add()
    one = announcer(server)
    subjects = [SubjectName("default", "YurtAppSet", f"app-{number}") for number in range(20)]
    answer = server.json

    async def late(*given: Any) -> Any:
        present = await answer(*given)
        await asyncio.sleep(0)  # the other reviews read before this one writes
        return present

    server.json = late  # type: ignore[method-assign]
    await asyncio.gather(*(one.announce(Announcement(subject, subject.name)) for subject in subjects))
    assert server.listed() == set(subjects)
    assert len(server.written) == 20


async def test_concurrent_announcements_of_replicas_are_all_listed() -> None:
    server = Server(configuration())
    server.add()
    server.meanwhile = [lambda: server.add(OTHER)]
    await announcer(server).announce(NEW)
    assert server.listed() == {DEMO, OTHER}


@pytest.mark.parametrize("error", [APIError(403, "Forbidden", "may not"), UnreachableError("cut")])
async def test_a_failed_announcement_is_logged_and_does_not_deny_the_request(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(configuration())
    server.failures = [error]
    await announcer(server).announce(NEW)
    assert "cannot announce the subject YurtAppSet default/demo of a new overrider" in caplog.text
    server.add()
    server.meanwhile = [server.add] * 5
    await announcer(server).announce(NEW)
    assert "other replicas keep changing the configuration" in caplog.text


async def test_only_created_overriders_are_announced() -> None:
    announced: list[Announcement] = []

    async def announce(announcement: Announcement) -> None:
        announced.append(announcement)

    rule = overrider(entry("*"))
    for response, fields in (
        (denied("no"), {}), (allowed(), {"dryRun": True}), (allowed(), {"subResource": "status"}),
        (allowed(), {"operation": "UPDATE", "old": rule}),
    ):  # fmt: skip
        await announce_overrider(request(rule, **fields), response, announce=announce)
    await announce_overrider(request(overrider(subject={"kind": "Pod"})), allowed(), announce=announce)
    assert announced == []
    await announce_overrider(request(rule), allowed(), announce=announce)
    rule["metadata"]["uid"] = "its-own"
    await announce_overrider(request(rule), allowed(), announce=announce)
    assert announced == [Announcement(DEMO, request(rule).uid), Announcement(DEMO, "its-own")]


def many(count: int, *, namespaces: int) -> list[SubjectName]:
    return [SubjectName(f"team-{number % namespaces}", "YurtAppSet", f"app-{number}") for number in range(count)]


@pytest.mark.parametrize("text", [None, 7, "", "{", '["a"]', '[["a","b"]]', "[[[1,2,3],4]]"])
def test_an_annotation_in_another_format_has_no_announcements(text: Any) -> None:
    assert read_announcements(text) == ()


def test_the_oldest_announcements_are_dropped_at_the_size_limit() -> None:
    many = [Announcement(SubjectName("n" * 63, "YurtAppSet", f"app-{number}"), "u" * 36) for number in range(2_000)]
    text = write_announcements(many)
    kept = read_announcements(text)
    assert MAX_ANNOTATION_BYTES - 200 < len(text) <= MAX_ANNOTATION_BYTES
    assert list(kept) == many[-len(kept) :]
    assert read_announcements(write_announcements([NEW])) == (NEW,)


RULE = overrider(entry("*"), uid="u-7")


@pytest.mark.parametrize(
    ("fields", "announced"),
    [
        ({}, [Announcement(DEMO, "u-7")]),
        ({"operation": "UPDATE", "old": RULE}, []),
        ({"dryRun": True}, []),
        ({"subResource": "status"}, []),
    ],
)
async def test_only_a_creation_is_announced(fields: dict[str, Any], announced: list[Announcement]) -> None:
    calls: list[Announcement] = []

    async def announce(announcement: Announcement) -> None:
        calls.append(announcement)

    await announce_overrider(request(RULE, **fields), Response(allowed=True), announce=announce)
    assert calls == announced


async def test_a_refused_overrider_is_not_announced() -> None:
    async def announce(announcement: Announcement) -> None:
        raise AssertionError(announcement)

    await announce_overrider(request(RULE), Response(allowed=False), announce=announce)
