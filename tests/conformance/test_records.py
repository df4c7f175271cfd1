"""Recordings of real runs, replayed: see records/README.md."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import invoke
from tests.serving import EXAMPLES

RECORDS = Path(__file__).parent / "records"
STORIES = (str(RECORDS / "stories.jsonl.gz"), "-f", str(RECORDS / "stories.yaml"))
KNOWN = {"yurtappset-stateful", "yurtappset-demo", "stateful", "demo1"}
"""The subjects were created before their overriders, which the replay knows already, so it warns about their replicas;
the warning about their overriders was longer when they were recorded."""


def replay(*arguments: str, code: int) -> dict[str, Any]:
    done = invoke(["replay", *arguments, "--output", "json"])
    assert done.exit_code == code, done.stdout + done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def list_changed(output: dict[str, Any]) -> list[tuple[str, Sequence[str]]]:
    return sorted((one["subject"]["name"], one["kinds"]) for one in output["changes"])


def test_the_stories_are_decided_as_on_the_apiserver() -> None:
    output = replay(*STORIES, code=1)
    assert list_changed(output) == [(name, ["warnings"]) for name in sorted(KNOWN)]
    assert (output["summary"]["reviews"], output["summary"]["problems"]) == (38, 0)


def test_the_examples_are_decided_as_before_and_their_webhook_is_not_needed() -> None:
    output = replay(str(RECORDS / "examples.jsonl.gz"), "-f", str(EXAMPLES), code=1)
    # The texts about overriders have changed since, the decisions have not.
    assert {kind for one in output["changes"] for kind in one["kinds"]} == {"message", "warnings"}
    assert output["notAsked"] == []
    assert (output["summary"]["reviews"], output["summary"]["same"], output["summary"]["skipped"]) == (40, 32, {})


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """The overrider of story 3 with another image for hangzhou."""
    text = (EXAMPLES / "yurtappoverrider" / "story-3" / "overrider.yaml").read_text()
    file = tmp_path / "overrider.yaml"
    file.write_text(text.replace("xxx:latest", "xxx:1.0"))
    assert file.read_text() != text
    return file


def test_an_edit_of_an_overrider_changes_its_pool_and_nothing_else(edited: Path) -> None:
    output = replay(*STORIES, "--change", str(edited), "--route", "/mutate-apps-v1-deployment", code=1)
    (change,) = output["changes"]
    assert change["kinds"] == ["object"]
    assert change["about"] == "YurtAppSet story-3/yurtappset-demo"
    assert change["subject"]["name"] == "yurtappset-demo-hangzhou-"
    (difference,) = change["differences"]
    values = {one["path"]: one["value"] for one in difference["patch"]}
    assert values.pop("/spec/template/spec/containers/0/image") == "xxx:1.0"
    assert list(values) == ["/metadata/annotations/fleethook.io~1rendered"]


def test_an_overrider_without_entries_changes_its_workloads_and_nothing_else(tmp_path: Path) -> None:
    document = yaml.safe_load((EXAMPLES / "yurtappoverrider" / "story-3" / "overrider.yaml").read_text())
    file = tmp_path / "overrider.yaml"
    file.write_text(yaml.safe_dump({**document, "entries": []}))
    route = ("--route", "/mutate-apps-v1-deployment")
    output = replay(*STORIES, "--change", str(file), *route, code=1)
    assert {one["about"] for one in output["changes"]} == {"YurtAppSet story-3/yurtappset-demo"}
    assert [one["subject"]["name"] for one in output["changes"]] == ["yurtappset-demo-hangzhou-"]
