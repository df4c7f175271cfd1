"""``fleethook replay``: its input, output and exit codes."""

import gzip
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cli.replay import list_recordings, read_recordings
from fleethook.recordings.recording_format import RecordProblem
from tests.builders import entry, image, overrider, workload, yurt_app_set
from tests.cli.commands import Result, invoke
from tests.recordings.recordings import MUTATE, header, line, write

SUBJECT, OVERRIDER = yurt_app_set(), overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


def review(name: str = "demo-hangzhou-x", *, pool: str = "hangzhou") -> dict[str, Any]:
    document = workload(pool=pool)
    document["metadata"]["name"] = name
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    request = {
        "uid": "u-1", "operation": "UPDATE", "kind": kind, "namespace": "default", "name": name,
        "object": document, "oldObject": document,
    }  # fmt: skip
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def answer(**response: Any) -> dict[str, Any]:
    known = {"uid": "u-1", "allowed": True}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {**known, **response}}


UNTOUCHED = line(review(pool="beijing"), answer())
CHANGED = line(review(), answer())
"""An answer from before the overrider."""
DENIED = line(
    review("\x1b[31mred", pool="beijing"), answer(allowed=False, status={"message": "\x1b]0;no", "code": 403})
)


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    path = tmp_path / "manifests.yaml"
    path.write_text(yaml.safe_dump_all([SUBJECT, OVERRIDER]))
    return path


def replay(manifests: Path, *arguments: Any, code: int, stdin: str = "") -> Result:
    """Run the command in this process: starting one takes longer than a test."""
    done = invoke(["replay", *map(str, arguments), "-f", str(manifests)], stdin=stdin)
    assert done.exit_code == code, done.output
    return done


def replay_json(manifests: Path, *arguments: Any, code: int) -> dict[str, Any]:
    output: dict[str, Any] = json.loads(replay(manifests, *arguments, "-o", "json", code=code).stdout)
    return output


def test_the_same_outcomes_exit_with_0(tmp_path: Path, manifests: Path) -> None:
    file = write(tmp_path / "a.jsonl.gz", UNTOUCHED, UNTOUCHED)
    assert replay(manifests, file, code=0).stdout == "2 reviews: 2 with the same outcome, 0 changed\n"


def test_a_change_is_shown_with_its_difference_and_its_place(tmp_path: Path, manifests: Path) -> None:
    file = write(tmp_path / "a.jsonl", UNTOUCHED, CHANGED, CHANGED)
    lines = replay(manifests, file, code=1).stdout.splitlines()
    assert lines[0] == "object: YurtAppSet default/demo, /mutate-apps-v1-deployment: 2 reviews"
    assert f"Deployment.apps default/demo-hangzhou-x (UPDATE), {file}:3" in lines[1]
    image_at = lines.index("    object /spec/template/spec/containers/0/image")
    assert lines[image_at + 1 : image_at + 3] == ["      - nginx:1.0", "      + nginx:2.0"]
    assert lines[-1] == "3 reviews: 1 with the same outcome, 2 changed"


def test_names_and_messages_cannot_control_the_terminal(tmp_path: Path, manifests: Path) -> None:
    file = write(tmp_path / "a.jsonl", DENIED)
    for output in ("text", "json"):
        printed = replay(manifests, file, "-o", output, code=1).stdout
        assert "\x1b" not in printed
        assert "31mred" in printed


def test_directories_are_searched_and_standard_input_is_read(tmp_path: Path, manifests: Path) -> None:
    (tmp_path / "records" / "deep").mkdir(parents=True)
    write(tmp_path / "records" / "a.jsonl.gz", UNTOUCHED)
    write(tmp_path / "records" / "deep" / "b.jsonl", UNTOUCHED)
    (tmp_path / "records" / "notes.txt").write_text("no recording")
    stdin = b"\n".join([header(), UNTOUCHED, b""]).decode()
    done = replay(manifests, tmp_path / "records", "-", code=0, stdin=stdin)
    assert done.stdout == "3 reviews: 3 with the same outcome, 0 changed\n"


def test_everything_readable_is_used_and_the_rest_is_reported(tmp_path: Path, manifests: Path) -> None:
    good = write(tmp_path / "good.jsonl", UNTOUCHED, b"{", UNTOUCHED)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b"\n".join([header(), *[UNTOUCHED] * 50]))[:-12])
    newer = tmp_path / "newer.jsonl"
    newer.write_bytes(header(format="fleethook.io/records/v2") + b"\n")
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text("some text\n")
    done = replay(manifests, good, cut, newer, foreign, code=0)
    assert done.stdout.endswith(" with the same outcome, 0 changed\n")
    assert [re.sub(r"(cut\S+):\d+", r"\1", one.partition(": ")[0]) for one in done.stderr.splitlines()] == [
        f"{good}:3", f"{cut}", f"{newer}:1", f"{foreign}:1"
    ]  # fmt: skip


def test_nothing_readable_exits_with_2(tmp_path: Path, manifests: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("some text\n")
    done = replay(manifests, file, code=2)
    assert "no record can be read" in done.stderr
    assert "this is no recording of fleethook" in done.stderr


def test_routes_are_selected(tmp_path: Path, manifests: Path) -> None:
    other = line({"text": "{"}, {}, status=400, route="/explore", path="/explore")
    file = write(tmp_path / "a.jsonl", UNTOUCHED, other)
    output = replay_json(manifests, file, "--route", MUTATE, code=0)
    assert output["summary"]["reviews"] == 1
    assert "no record matches" in replay(manifests, file, "--route", "/interpret", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--route", "/nowhere"], "--route: there is no route /nowhere; give one of /"),
        (["--kubeconfig", "a"], "give only one of"),
        (["/nowhere"], "/nowhere does not exist"),
        (["-", "-"], "more than once"),
        (["-", "--change", "-"], "more than once"),
    ],
)
def test_wrong_arguments_exit_with_2(tmp_path: Path, manifests: Path, arguments: list[str], message: str) -> None:
    file = write(tmp_path / "a.jsonl", UNTOUCHED)
    assert message in replay(manifests, file, *arguments, code=2).stderr


def test_a_source_is_needed(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", UNTOUCHED)
    done = invoke(["replay", str(file)])
    assert (done.exit_code, "give -f FILE, --kubeconfig" in done.stderr) == (2, True)


def test_json_has_every_change(tmp_path: Path, manifests: Path) -> None:
    file = write(tmp_path / "a.jsonl", CHANGED, UNTOUCHED, DENIED)
    output = replay_json(manifests, file, code=1)
    examples = output["changes"]
    assert [(one["kinds"], one["line"]) for one in examples] == [(["object"], 2), (["verdict", "code", "message"], 4)]
    patch = examples[0]["differences"][0]["patch"]
    assert {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:2.0"} in patch
    assert examples[1]["differences"][0] == {"aspect": "verdict", "before": "denied", "after": "allowed"}
    assert [(one["about"], one["reviews"]) for one in output["groups"]] == [("YurtAppSet default/demo", 1)] * 2
    assert output["summary"] == {
        "reviews": 3, "same": 1, "changed": 2, "undecidable": 0, "skipped": {}, "problems": 0,
    }  # fmt: skip


def test_settings_of_the_server_apply_and_its_source_is_ignored(tmp_path: Path, manifests: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"manifests": "/none", "engines": ["crds"], "record": str(tmp_path / "records")}))
    done = replay(manifests, write(tmp_path / "a.jsonl", UNTOUCHED), "--config", config, code=0)
    assert "this fleethook lacks the route" in done.stdout


RULE = """
from fleethook.admission import Denied, validate

@validate("apps/v1", "Deployment", existing="refuse")
def needs_owner(request):
    if "owner" not in request.labels:
        raise Denied("label `owner` is missing")
"""
RULE_ROUTE = "/rules/validate/needs-owner"


def replay_rules(tmp_path: Path, text: str, *arguments: str) -> Result:
    (tmp_path / "rules.py").write_text(text)
    recorded = line(review(pool="beijing"), answer(), route=RULE_ROUTE, path=RULE_ROUTE)
    file = write(tmp_path / "a.jsonl", CHANGED, recorded)
    return invoke(["replay", str(file), "--rules", str(tmp_path / "rules.py"), *arguments])


def test_an_edited_rule_decides_the_recorded_reviews_of_rules_without_objects(tmp_path: Path) -> None:
    done = replay_rules(tmp_path, RULE)
    assert done.exit_code == 1, done.output
    assert "verdict, code, message: " in done.stdout
    assert "      + label `owner` is missing" in done.stdout
    assert done.stdout.endswith("1 review: 0 with the same outcome, 1 changed\n")
    same = replay_rules(tmp_path, RULE.replace("not in", "in"))
    assert (same.exit_code, same.stdout) == (0, "1 review: 1 with the same outcome, 0 changed\n")


def test_an_invalid_rule_exits_with_2_and_its_line(tmp_path: Path) -> None:
    done = replay_rules(tmp_path, RULE.replace('"Deployment"', '"Deployment", on="MOVE"'))
    assert (done.exit_code, "rules.py:4: needs_owner: on: 'MOVE' is unknown" in done.stderr) == (2, True)


def test_a_directory_stands_for_its_recordings_by_name(tmp_path: Path) -> None:
    for name in ("b.jsonl.gz", "a.jsonl", "sub/c.jsonl.gz", "d.jsonl.tmp", "e.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "directory.jsonl").mkdir()
    found = list_recordings([tmp_path, tmp_path / "e.json", Path("-")])
    names = ["a.jsonl", "b.jsonl.gz", "sub/c.jsonl.gz", "e.json"]
    assert found == [*(tmp_path / name for name in names), Path("-")]


@pytest.mark.parametrize(("name", "message"), [("empty", "has no recording"), ("absent", "does not exist")])
def test_a_path_without_a_recording_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit):
        list_recordings([tmp_path / name])
    assert f"{tmp_path / name} {message}" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_a_problem_and_the_others_are_read(tmp_path: Path) -> None:
    problems: list[RecordProblem] = []
    files = [tmp_path / "absent.jsonl", tmp_path, write(tmp_path / "a.jsonl.gz", line({}, {}), b"{")]
    found = list(read_recordings(files, problems.append))
    assert [(one.file, one.line) for one in found] == [(str(files[2]), 2)]
    assert [(one.file, one.line) for one in problems] == [(str(files[0]), 1), (str(tmp_path), 1), (str(files[2]), 3)]
    assert problems[0].reason == f"the file cannot be read: {os.strerror(2)}"


def test_standard_input_is_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    text = header() + b"\n" + line({}, {}) + b"\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    (found,) = read_recordings([Path("-")], lambda problem: pytest.fail(str(problem)))
    assert (found.file, found.line) == ("<stdin>", 2)
