import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.cli.fake_cluster import Cluster
from tests.cli.interpreting import CUSTOMIZATION, DATABASE, DIRECTORY, FIXTURE, GAME, run, write_bundle
from tests.serving import ROOT
from tests.waiting import NET

CONFIG_MAPS = "/api/v1/namespaces/karmada-system/configmaps"


def test_the_fixtures_of_the_example_pass() -> None:
    code, out, _ = run("test", str(DIRECTORY / "testdata"), "--interpreters", DATABASE)
    assert code == 0
    assert out.endswith("4 passed, 0 failed\n")
    assert "ok   InterpretReplica     python   three members" in out


def test_run_prints_the_answer_and_its_layer() -> None:
    code, out, _ = run(
        "run", "--operation", "ExploreStatus", "--observed-file", str(DIRECTORY / "objects" / "foo.yaml")
    )
    assert (code, out) == (0, "---\n# [1/1] status: (native: whole)\nphase: Ready\n")
    code, out, _ = run(
        "run", "--operation", "InterpretReplica", "-f", str(DIRECTORY / "objects" / "foo.yaml"), "--output", "json"
    )
    assert code == 1


def test_members_that_karmada_drops_are_warnings(tmp_path: Path) -> None:
    """In Lua and in Python, of a run and of a test whose fixture does not name the member."""
    script = "function GetReplicas(o)\n  return 1, {requests = {cpu = '1'}}\nend"
    customization = yaml.safe_load(CUSTOMIZATION)
    customization["spec"]["customizations"] = {"replicaResource": {"luaScript": script}}
    (tmp_path / "customization.yaml").write_text(yaml.safe_dump(customization))
    (tmp_path / "game.yaml").write_text(GAME)
    python = tmp_path / "chess.py"
    python.write_text(
        'from fleethook.interpret import interpreter\n\nchess = interpreter("games.example.com/v1", "Game")\n\n\n'
        '@chess.components\ndef components(game):\n    return [{"name": "a", "replica": 2}]\n'
    )
    run_both = ("run", "-f", str(tmp_path / "customization.yaml"), "-f", str(tmp_path / "game.yaml"), "--operation")
    code, _, err = run(*run_both, "InterpretReplica")
    of_lua = "game/replicaResource:2: Karmada drops a member of the answer: requirements has no member requests"
    assert (code, err) == (0, f"warning: {of_lua}; did you mean resourceRequest?\n")
    code, _, err = run(*run_both, "InterpretComponent", "--interpreters", str(python))
    of_python = "chess.py:6: Karmada drops a member of the answer: components[0] has no member replica"
    assert (code, err) == (0, f"warning: {of_python}; did you mean replicas?\n")
    fixture = tmp_path / "testdata" / "replica-test.yaml"
    fixture.parent.mkdir()
    fixture.write_text(f"name: one\noperation: InterpretReplica\ndesiredObj: {GAME}\noutput: {{replica: 1}}\n")
    code, out, err = run("test", str(tmp_path))
    assert (code, f"{fixture}:1: warning: {of_lua}" in err) == (0, True), out
    code, out, _ = run("test", str(tmp_path), "--strict")
    assert (code, of_lua in out) == (1, True)
    assert run(*run_both, "InterpretReplica", "--strict")[0] == 1


def test_run_names_the_convention_that_decided(tmp_path: Path) -> None:
    game = tmp_path / "game.yaml"
    game.write_text(GAME.replace("{ready: true}", "{conditions: [{type: Ready, status: 'False', reason: Lost}]}"))
    asked = ("run", "--operation", "InterpretHealth", "-f", str(game))
    code, _, err = run(*asked)
    assert (code, "rule is not set" in err) == (1, True)
    code, out, _ = run(*asked, "--conventions", "health")
    assert (code, out) == (
        0,
        "---\n# [1/1] healthy: (conventions: standard conditions: Ready is False (Lost))\nfalse\n",
    )
    code, out, _ = run(*asked, "--conventions", "all", "-o", "json")
    assert json.loads(out) == {
        "layer": "conventions", "hook": "standard conditions", "rule": "Ready is False (Lost)",
        "results": {"healthy": False},
    }  # fmt: skip


def test_run_writes_the_output_of_a_script_to_standard_error(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    (tmp_path / "game.yaml").write_text(GAME)
    manifests = str(bundle / "games.example.com" / "v1" / "Game" / "customizations.yaml")
    code, out, err = run(
        "run",
        "--operation",
        "InterpretHealth",
        "--observed-file",
        str(tmp_path / "game.yaml"),
        "-f",
        manifests,
    )
    assert (code, out) == (0, "---\n# [1/1] healthy: (lua: ResourceInterpreterCustomization game)\ntrue\n")
    assert err == "seen\tg\n"


def test_run_takes_customizations_by_the_option_of_karmadactl(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    (tmp_path / "game.yaml").write_text(GAME)
    customization = str(bundle / "games.example.com" / "v1" / "Game" / "customizations.yaml")
    ask = ("run", "--operation", "InterpretHealth", "-f", customization)
    answer = "---\n# [1/1] healthy: (lua: ResourceInterpreterCustomization game)\ntrue\n"
    for option in ("--desired-file", "--observed-file", "-f"):
        assert run(*ask, option, str(tmp_path / "game.yaml"))[:2] == (0, answer)
    code, _, err = run(*ask, "-f", str(tmp_path / "game.yaml"), "--desired-file", str(tmp_path / "game.yaml"))
    assert (code, err) == (
        2, "fleethook: -f and --desired-file give several objects to ask about: give only one\n",
    )  # fmt: skip
    code, _, err = run(*ask)
    assert (code, err) == (2, "fleethook: InterpretHealth needs a desired or an observed object\n")


@contextlib.contextmanager
def watch(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", IO[str]]]:
    """Run the command until the block ends. A watchdog ends the process after the limit for tests."""
    command = [sys.executable, "-m", "fleethook", "interpret", "test", *arguments, "--watch"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    watchdog = threading.Timer(NET, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        yield process, process.stdout
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


@contextlib.contextmanager
def change_repeatedly(file: Path, text: str) -> Iterator[None]:
    """Write a file repeatedly, because a change before the watch begins is not seen."""
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            file.with_suffix(".tmp").write_text(text)
            file.with_suffix(".tmp").replace(file)
            stop.wait(0.2)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def read_until(end: str, output: IO[str]) -> str:
    found = ""
    while not found.endswith(end):
        line = output.readline()
        assert line, f"it ended: {found}"
        found += line
    return found


def test_watch_runs_again_after_a_change(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    file = bundle / "games.example.com" / "v1" / "Game" / "testdata" / "interprethealth-test.yaml"
    with watch(str(bundle)) as (process, output):
        read_until("1 passed, 0 failed\n", output)
        with change_repeatedly(file, FIXTURE.replace("true}\n", "false}\n")):
            assert "expected false" in read_until("0 passed, 1 failed\n", output)
        process.send_signal(signal.SIGINT)
        output.read()
        assert process.wait(NET) == 0


def test_run_asks_the_customizations_of_a_karmada(cluster: tuple[Cluster, tuple[str, ...]], tmp_path: Path) -> None:
    held, options = cluster
    path = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations"
    held.lists = {path: [yaml.safe_load(CUSTOMIZATION)], CONFIG_MAPS: []}
    game = tmp_path / "game.yaml"
    game.write_text(GAME)
    call = ("run", "--operation", "InterpretHealth", "--observed-file", str(game), *options)
    code, out, _ = run(*call)
    assert code == 0
    assert "healthy" in out
    assert held.queries[CONFIG_MAPS]["fieldSelector"] == "metadata.name=karmada-config"
    mine = tmp_path / "mine.yaml"
    mine.write_text(CUSTOMIZATION.replace("observedObj.status.ready == true", "false"))
    _, out, _ = run(*call, "-f", str(mine))
    assert "false" in out


def test_an_object_without_kind_is_an_error_with_its_line(tmp_path: Path) -> None:
    for text, reason in (
        ("apiVersion: v1\nmetadata: {name: a}\n", "apiVersion and kind are required"),
        ("apiVersion: v1\nkind: Pod\nmetadata: [1]\n", "metadata"),
    ):
        (tmp_path / "a.yaml").write_text(text)
        code, out, err = run("run", "--operation", "InterpretHealth", "-f", str(tmp_path / "a.yaml"))
        assert (code, out) == (2, "")
        assert f"{tmp_path}/a.yaml:1: " in err
        assert reason in err


def test_fixtures_ask_the_customizations_of_a_karmada(cluster: tuple[Cluster, tuple[str, ...]], tmp_path: Path) -> None:
    held, options = cluster
    path = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations"
    held.lists = {path: [yaml.safe_load(CUSTOMIZATION)], CONFIG_MAPS: []}
    fixture = tmp_path / "ready-test.yaml"
    fixture.write_text(FIXTURE)
    assert run("test", str(fixture))[0] == 1
    assert run("test", str(fixture), *options)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("--status-file", "{}"),
            "InterpretHealth does not use --status-file, only AggregateStatus does: leave it out",
        ),
        (("--desired-replica", "3"), "InterpretHealth does not use --desired-replica, only ReviseReplica does: "),
        (("--observed-file", "{}"), "InterpretHealth does not use --observed-file, only Retain does: "),
    ],
)
def test_run_refuses_options_that_its_operation_does_not_use(
    tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    file = tmp_path / "game.yaml"
    file.write_text(GAME)
    code, _, err = run("run", "--operation", "InterpretHealth", str(file), *(one.format(file) for one in arguments))
    assert (code, problem in err) == (2, True)


def test_a_failing_script_is_reported_with_its_line(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    file = bundle / "games.example.com" / "v1" / "Game" / "customizations.yaml"
    file.write_text(CUSTOMIZATION.replace("observedObj.status.ready", "observedObj.state.ready"))
    code, out, _ = run("test", str(bundle))
    assert code == 1
    assert "game/healthInterpretation:3: attempt to index a nil value (field 'state')" in out


@pytest.fixture
def failing_fixtures(tmp_path: Path) -> str:
    file = tmp_path / "fails.yaml"
    file.write_text(
        "name: counted wrongly\noperation: interpretreplica\n"
        "desiredObj: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2}}\n"
        "output: {replica: 3}\n---\n"
        "name: nobody knows it\noperation: InterpretHealth\n"
        "observedObj: {apiVersion: x/v1, kind: Z, metadata: {name: z}}\noutput: {healthy: true}\n---\n"
        "name: anything goes\noperation: InterpretStatus\n"
        "observedObj: {apiVersion: x/v1, kind: Z, status: {a: 1, b: {c: 2}}}\n"
        "output: {status: {a: 1, b: '{{EXCLUDE}}'}}\n"
    )
    return str(file)


def test_text_shows_a_failure_with_its_line_and_exits_1(failing_fixtures: str) -> None:
    code, out, _ = run("test", failing_fixtures)
    assert code == 1
    assert f"FAIL InterpretReplica     native   counted wrongly\n     {failing_fixtures}:1\n     replica\n" in out
    assert "expected 3\n       found    2" in out
    assert (
        "rule is not set: no layer answers InterpretHealth for x/v1 Z (asked: lua, webhook, python, bundle, native)"
        in out
    )
    assert "ok   InterpretStatus      native   anything goes" in out
    assert out.endswith("1 passed, 2 failed\n")


def test_results_as_json_and_junit(failing_fixtures: str) -> None:
    code, out, _ = run("test", failing_fixtures, "--output", "json")
    rows = json.loads(out)
    assert (code, [row["passed"] for row in rows]) == (1, [False, False, True])
    assert rows[0]["differences"] == [{"path": "replica", "expected": 3, "found": 2}]
    code, out, _ = run("test", failing_fixtures, "--output", "junit")
    suite = ET.fromstring(out)
    assert (code, suite.get("tests"), suite.get("failures")) == (1, "3", "2")
    assert [case.find("failure") is None for case in suite] == [False, False, True]
