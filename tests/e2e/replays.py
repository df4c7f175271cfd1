"""Runs ``fleethook replay`` on the recording of a server, and reads its predictions."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fleethook.recordings.recording_format import RecordEntry, read_entries
from tests.cli.commands import run_command
from tests.e2e.cluster import ControlPlane
from tests.e2e.predictions import list_source_arguments
from tests.serving import Server
from tests.waiting import wait_for

JSONObject = dict[str, Any]
Answers = dict[str, JSONObject]
"""The responses by the uid of the review."""


class Replay(NamedTuple):
    """The output of the command.

    Attributes:
        changes: The reviews that are decided differently.
        text: The output.
    """

    changes: list[JSONObject]
    text: str

    @property
    def uids(self) -> set[str]:
        """The reviews with another outcome."""
        return {one["uid"] for one in self.changes if not one["missing"]}

    @property
    def undecidable(self) -> set[str]:
        """The reviews whose outcome depends on a webhook without a recorded answer."""
        return {one["uid"] for one in self.changes if one["missing"]}


def run_replay(
    plane: ControlPlane,
    records: Path,
    directory: Path,
    *documents: JSONObject,
    route: str,
) -> Replay:
    """Ask the recorded reviews again with edited objects of the cluster, and check the exit code.

    Args:
        plane: The cluster.
        records: The directory of the recording.
        directory: A directory for files of the command.
        *documents: The edited objects.
        route: The route whose reviews are asked.
    """
    arguments = list_source_arguments(plane, directory, documents, option="--change")
    found = run_command("replay", str(records), "--route", route, *arguments)
    assert found.returncode in (0, 1), found.stderr
    output = json.loads(found.stdout)
    assert found.returncode == bool(output["changes"]), found.stderr
    return Replay(output["changes"], found.stdout)


def read_records(records: Path) -> Iterator[RecordEntry]:
    """Yield the records that are in the files now."""
    for path in sorted(records.glob("*.jsonl.gz")):
        with path.open("rb") as stream:
            yield from (one for one in read_entries(stream, path.name) if isinstance(one, RecordEntry))


def wait_for_record(records: Path, uid: str) -> None:
    """Wait until the recorder, which keeps the order, has written the review with a uid."""
    text = uid.encode()
    wait_for(lambda: any(text in bytes(one.record.review) for one in read_records(records)), what=f"{uid} is recorded")


class Recording(NamedTuple):
    """A server that records, and the directory of its recording."""

    server: Server
    records: Path


def ask(server: Server, reviews: list[tuple[str, JSONObject]]) -> Answers:
    """Send reviews to their paths."""
    found = {}
    for path, made in reviews:
        status, answer = server.request("POST", path, json.dumps(made).encode())
        assert status == 200, answer
        found[made["request"]["uid"]] = json.loads(answer)["response"]
    return found


def copy_records(records: Path, directory: Path, reviews: list[tuple[str, JSONObject]]) -> Path:
    """Copy the recording when it has the reviews; the predictions are made of these, while the recording goes on."""
    wait_for_record(records, reviews[-1][1]["request"]["uid"])
    return Path(shutil.copytree(records, directory / "records"))


def find_changed(before: Answers, after: Answers) -> set[str]:
    return {uid for uid, response in before.items() if after[uid] != response}
