"""The facts about recorded reviews, read from files that change."""

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest

from fleethook.console.reviews import review_index
from fleethook.console.reviews.review_index import (
    Indexed,
    ReviewIndex,
    ReviewSummary,
    classify,
    read_recorded_outcome,
    summarize,
)
from fleethook.model.gvk import GroupKind
from fleethook.recordings.recording_format import RecordEntry, read_entries
from tests.recordings.recordings import MUTATE, TIME, header, line, write
from tests.waiting import NET, until
from tests.watched_calls import watch_calls


def reviews(*names: str) -> list[bytes]:
    return [line(asked(name=name), {"kind": "AdmissionReview", "response": {"allowed": True}}) for name in names]


def names(indexed: Indexed) -> list[str]:
    return [one.name for one in indexed.reviews]


async def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "pod").mkdir()
    write(tmp_path / "pod" / "b.jsonl.gz", *reviews("third"))
    write(tmp_path / "a.jsonl", *reviews("first", "second"))
    (tmp_path / "readme.txt").write_text("no recording")
    indexed = await ReviewIndex(tmp_path, patience=NET).find()
    assert names(indexed) == ["first", "second", "third"]
    assert [indexed.files[one.file] for one in indexed.reviews] == ["a.jsonl", "a.jsonl", "pod/b.jsonl.gz"]
    assert (indexed.problems, indexed.is_reading, indexed.left_out) == ([], False, 0)


async def test_changed_new_and_deleted_files_are_noticed(tmp_path: Path) -> None:
    index, kept, gone = (
        ReviewIndex(tmp_path, patience=NET),
        tmp_path / "b.jsonl",
        write(tmp_path / "a.jsonl", *reviews("gone")),
    )
    write(kept, *reviews("one"))
    assert names(await index.find()) == ["gone", "one"]
    gone.unlink()
    write(kept, *reviews("one", "two"))
    assert names(await index.find()) == ["one", "two"]


async def test_unchanged_files_are_not_read_again(tmp_path: Path) -> None:
    with watch_calls(review_index._read_facts) as seen:
        index = ReviewIndex(tmp_path, patience=NET)
        write(tmp_path / "a.jsonl", *reviews("one"))
        await index.find()
        write(tmp_path / "b.jsonl", *reviews("two"))
        assert names(await index.find()) == ["one", "two"]
    assert len(seen["_read_facts"]) == 2


async def test_a_page_gets_the_former_facts_while_files_are_read(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *reviews("one"))
    index = ReviewIndex(tmp_path, patience=0.0)
    first = await index.find()
    assert (first.is_reading, names(first)) == (True, [])
    reading = index._reading
    assert reading is not None
    await until(reading.done)
    assert names(await index.find()) == ["one"]
    await asyncio.wait([index._reading] if index._reading else [])


async def test_damaged_and_foreign_files_are_reported_and_the_rest_is_used(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.jsonl.gz", *reviews("one", "two"))
    whole.write_bytes(whole.read_bytes()[:-12])
    (tmp_path / "b.jsonl").write_text("{}\n")
    write(tmp_path / "c.jsonl", b"no JSON", *reviews("three"))
    indexed = await ReviewIndex(tmp_path, patience=NET).find()
    assert names(indexed)[-1] == "three"
    assert indexed.problem_count == len(indexed.problems) == 3
    assert [one.place for one in indexed.problems][1:] == ["b.jsonl:1", "c.jsonl:2"]


async def test_records_are_loaded_by_their_place(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *reviews("one", "two", "three"))
    index = ReviewIndex(tmp_path, patience=NET)
    indexed = await index.find()
    entries = await index.load([indexed.reviews[2], indexed.reviews[0]])
    assert [(one.file, one.line) for one in entries] == [("a.jsonl", 2), ("a.jsonl", 4)]
    assert index.locate("a.jsonl", 3) == indexed.reviews[1]


async def test_only_files_of_the_directory_have_a_place(tmp_path: Path) -> None:
    inside, outside = tmp_path / "records", tmp_path / "secret.jsonl"
    inside.mkdir()
    write(outside, *reviews("secret"))
    index = ReviewIndex(inside, patience=NET)
    await index.find()
    assert index.locate("../secret.jsonl", 2) is None
    assert index.locate(str(outside), 2) is None


KIND = {"group": "apps", "version": "v1", "kind": "Deployment"}


def entry_of(review: Any, answer: Any = None, **members: Any) -> RecordEntry:
    text = header() + b"\n" + line(review, answer, **members) + b"\n"
    (found,) = read_entries(io.BytesIO(text), "file")
    assert isinstance(found, RecordEntry)
    return found


def asked(**request: Any) -> dict[str, Any]:
    return {"request": {"uid": "u-1", "operation": "CREATE", "kind": KIND, "namespace": "shop", **request}}


ALLOWED = {"kind": "AdmissionReview", "response": {"uid": "u-1", "allowed": True}}


def test_a_summary_names_the_object_and_the_place() -> None:
    found = summarize(entry_of(asked(name="web"), ALLOWED, cluster="root:a", seconds=0.25), 3)
    assert found == ReviewSummary(
        3, 2, TIME, MUTATE, "root:a", "apps", "Deployment", "shop", "web", "CREATE", "allowed", 0.25, "u-1"
    )
    assert found.group_kind == GroupKind("apps", "Deployment")


@pytest.mark.parametrize(
    ("request_", "name", "namespace"),
    [
        ({"object": {"metadata": {"name": "a"}}}, "a", "shop"),
        ({"object": {"metadata": {"generateName": "a-"}}}, "a-", "shop"),
        ({"namespace": "", "oldObject": {"metadata": {"name": "old", "namespace": "n"}}}, "old", "n"),
        ({"object": None, "oldObject": None}, "", "shop"),
    ],
)
def test_a_review_without_a_name_has_that_of_its_object(request_: dict[str, Any], name: str, namespace: str) -> None:
    found = summarize(entry_of(asked(**request_), ALLOWED), 0)
    assert (found.name, found.namespace) == (name, namespace)


@pytest.mark.parametrize(
    ("status", "answer", "verdict"),
    [
        (200, ALLOWED, "allowed"),
        (
            200,
            {
                "kind": "AdmissionReview",
                "response": {"allowed": True, "patch": "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0="},
            },
            "patched",
        ),
        (200, {"kind": "AdmissionReview", "response": {"allowed": False}}, "denied"),
        (200, {"kind": "ResourceInterpreterContext", "response": {"successful": False}}, "failed"),
        (200, {"kind": "ResourceInterpreterContext", "response": {"successful": True, "healthy": True}}, "answered"),
        (200, {"hooks": []}, "answered"),
        (400, {"kind": "Status", "message": "no"}, "refused"),
    ],
)
def test_each_answer_has_a_verdict(status: int, answer: Any, verdict: str) -> None:
    assert classify(read_recorded_outcome(entry_of(asked(), answer, status=status))) == verdict
