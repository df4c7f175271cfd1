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
from typer.testing import CliRunner

from app.cli import app
from tests.serving import EXAMPLES, ROOT
from tests.waiting import NET

RUNNER = CliRunner()
DIRECTORY = EXAMPLES / "interpreter"
DATABASE = str(DIRECTORY / "database.py")


def run(*arguments: str) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["interpret", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_examples_fixtures_pass() -> None:
    code, out, _ = run("test", str(DIRECTORY / "testdata"), "--interpreters", DATABASE)
    assert code == 0
    assert out.endswith("4 passed, 0 failed\n")
    assert "ok   InterpretReplica     python   three members" in out


@pytest.fixture
def failing(tmp_path: Path) -> str:
    file = tmp_path / "fails.yaml"
    file.write_text(
        "name: counted wrongly\noperation: interpretreplica\n"
        "desiredObj: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2}}\n"
        "output: {replica: 3}\n---\n"
        "name: nobody knows it\noperation: InterpretHealth\n"
        "observedObj: {apiVersion: x/v1, kind: Y, metadata: {name: y}}\noutput: {healthy: true}\n---\n"
        "name: anything goes\noperation: InterpretStatus\n"
        "observedObj: {apiVersion: x/v1, kind: Y, status: {a: 1, b: {c: 2}}}\n"
        "output: {status: {a: 1, b: '{{EXCLUDE}}'}}\n"
    )
    return str(file)


def test_a_failure_is_shown_with_its_place_and_exits_1(failing: str) -> None:
    code, out, _ = run("test", failing)
    assert code == 1
    assert f"FAIL InterpretReplica     native   counted wrongly\n     {failing}:1\n     replica\n" in out
    assert "expected 3\n       found    2" in out
    assert (
        "rule is not set: nothing answers InterpretHealth for x/v1 Y (asked: lua, webhook, python, bundle, native)"
        in out
    )
    assert "ok   InterpretStatus      native   anything goes" in out
    assert out.endswith("1 passed, 2 failed\n")


def test_results_as_json_and_junit(failing: str) -> None:
    code, out, _ = run("test", failing, "--output", "json")
    rows = json.loads(out)
    assert (code, [row["passed"] for row in rows]) == (1, [False, False, True])
    assert rows[0]["differences"] == [{"path": "replica", "expected": 3, "found": 2}]
    code, out, _ = run("test", failing, "--output", "junit")
    suite = ET.fromstring(out)
    assert (code, suite.get("tests"), suite.get("failures")) == (1, "3", "2")
    assert [case.find("failure") is None for case in suite] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\noutput: {}\n", "operation is missing"),
        ("name: x\noperation: Nothing\noutput: {a: 1}\n", "operation 'Nothing' is unknown"),
        ("name: x\noperation: InterpretHealth\noutput: {healed: true}\n", "InterpretHealth has no healed"),
        ("name: x\noperation: Retain\noutput: {retained: {}}\n", "needs the desired and the observed object"),
        ("name: x\noperation: [\n", "bad.yaml:3"),
        ("", "there are no fixtures"),
    ],
)
def test_what_is_no_fixture_exits_2(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    code, _, err = run("test", str(file))
    assert code == 2
    assert problem in err


def test_run_prints_an_answer_and_who_gave_it() -> None:
    code, out, _ = run(
        "run", "--operation", "ExploreStatus", "--observed-file", str(DIRECTORY / "objects" / "foo.yaml")
    )
    assert (code, out) == (0, "---\n# [1/1] status: (native: whole)\nphase: Ready\n")
    code, out, _ = run(
        "run", "--operation", "InterpretReplica", "-f", str(DIRECTORY / "objects" / "foo.yaml"), "--output", "json"
    )
    assert code == 1


def test_check_finds_what_is_wrong_with_configurations(tmp_path: Path) -> None:
    code, out, _ = run("check", str(DIRECTORY / "configuration.yaml"), DATABASE)
    assert code == 0
    assert "db.example.com/v1 Database: InterpretDependency, InterpretHealth, InterpretReplica, ReviseReplica" in out
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        (DIRECTORY / "configuration.yaml").read_text().replace("https://localhost:9443/explore-foo", "http://h")
    )
    code, out, _ = run("check", str(broken))
    assert code == 1
    assert "webhooks[0].clientConfig.url: Invalid value" in out


def test_interpreters_that_cannot_be_loaded_exit_2(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("1 / 0\n")
    code, _, err = run("test", str(DIRECTORY / "testdata"), "--interpreters", str(tmp_path / "x.py"))
    assert code == 2
    assert "ZeroDivisionError" in err


RETENTION = EXAMPLES / "retention"

CUSTOMIZATION = """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: game}
spec:
  target: {apiVersion: games.example.com/v1, kind: Game}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(observedObj)
          print("seen", observedObj.metadata.name)
          return observedObj.status ~= nil and observedObj.status.ready == true
        end
"""
GAME = "{apiVersion: games.example.com/v1, kind: Game, metadata: {name: g}, status: {ready: true}}"
FIXTURE = f"name: ready\noperation: InterpretHealth\nobservedObj: {GAME}\noutput: {{healthy: true}}\n"


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A directory as Karmada's bundle has them."""
    kind = tmp_path / "games.example.com" / "v1" / "Game"
    (kind / "testdata").mkdir(parents=True)
    (kind / "customizations.yaml").write_text(CUSTOMIZATION)
    (kind / "testdata" / "interprethealth-test.yaml").write_text(FIXTURE)
    return tmp_path


def test_a_directory_in_upstreams_format(upstream: Path) -> None:
    code, out, _ = run("test", str(upstream))
    assert (code, out) == (0, "ok   InterpretHealth      lua      ready\n1 passed, 0 failed\n")


def test_fixtures_that_share_objects() -> None:
    code, out, _ = run("test", str(RETENTION))
    assert code == 0
    assert out.count("ok   Retain               lua") == 3


def test_an_empty_member_more_in_a_status_is_no_difference(tmp_path: Path) -> None:
    """Karmada's fixtures cannot name it."""
    file = tmp_path / "x.yaml"
    case = "name: any\noperation: InterpretStatus\nobservedObj: {apiVersion: x/v1, kind: Y, status: %s}\noutput: {status: %s}\n"
    for status, expected, code in (
        ("{a: {}, b: 1}", "{b: 1}", 0),
        ("{a: [], b: {c: []}}", "{b: {}}", 0),
        ("{a: 0, b: 1}", "{b: 1}", 1),
        ("{b: 1}", "{a: {}, b: 1}", 1),
        ("{a: {}}", "{a: []}", 1),
        ("{a: [{}]}", "{a: []}", 1),
    ):
        file.write_text(case % (status, expected))
        assert run("test", str(file))[0] == code, (status, expected)


def test_an_aggregated_object_may_leave_out_members_of_the_template(tmp_path: Path) -> None:
    """Karmada writes the status only, and some of its scripts drop spec."""
    file = tmp_path / "x.yaml"
    job = "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}%s}"
    for members, code in (
        ("", 0),
        (", spec: {suspend: true}", 0),
        (", status: {}", 0),
        (", spec: {}", 1),
        (", x: 1", 1),
    ):
        asked = f"name: x\noperation: AggregateStatus\ndesiredObj: {job % ', spec: {suspend: true}'}\n"
        file.write_text(f"{asked}output: {{aggregatedStatus: {job % members}}}\n")
        assert run("test", str(file))[0] == code, members


def test_requirements_and_references_are_compared_without_what_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: n}, spec: {containers: [{name: c, envFrom: [{secretRef: {name: s}}]}]}}"
    secret = "{apiVersion: v1, kind: Secret, name: s, namespace: %s}"
    for namespace, code in (("n, labelSelector: {}", 0), ('n, extra: ""', 0), ('""', 1), ("m", 1)):
        expected = secret % namespace
        file.write_text(
            f"name: x\noperation: InterpretDependency\ndesiredObj: {pod}\noutput: {{dependencies: [{expected}]}}\n"
        )
        assert run("test", str(file))[0] == code, namespace
    file.write_text(
        f"name: x\noperation: InterpretReplica\ndesiredObj: {pod}\noutput: {{replica: 1, requires: {{nodeClaim: {{}}}}}}\n"
    )
    assert run("test", str(file))[0] == 0


def test_replicas_that_are_not_said_are_none(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: %d}}"
    file.write_text(
        f"name: x\noperation: ReviseReplica\ndesiredObj: {deployment % 2}\noutput: {{revised: {deployment % 0}}}\n"
    )
    assert run("test", str(file))[0] == 0


def test_a_fixture_may_leave_open_what_is_answered(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    status = "observedObj: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}"
    file.write_text(f"name: any\noperation: InterpretHealth\n{status}\noutput:\n")
    assert run("test", str(file))[:2] == (0, "ok   InterpretHealth      native   any\n1 passed, 0 failed\n")
    file.write_text("name: none\noperation: InterpretHealth\nobservedObj: {apiVersion: x/v1, kind: Y}\noutput:\n")
    assert run("test", str(file))[0] == 1


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        ("tests: 7", "tests must be a list"),
        ("tests: [{name: x, operation: InterpretHealth, observedObj: nobody, output: {healthy: true}}]", "unknown object 'nobody': objects has none"),
        ("tests: [7]", "is not an object"),
        ("kind: Something", "is neither a fixture (name, operation, output) nor an object to test"),
    ],
)  # fmt: skip
def test_shared_fixtures_that_are_none(tmp_path: Path, tests: str, problem: str) -> None:
    (tmp_path / "x.yaml").write_text(tests)
    code, _, err = run("test", str(tmp_path))
    assert code == 2
    assert problem in err


def test_a_customization_that_cannot_be_used_exits_2(upstream: Path) -> None:
    file = upstream / "games.example.com" / "v1" / "Game" / "customizations.yaml"
    file.write_text(CUSTOMIZATION.replace("return observed", "retrun observed"))
    code, _, err = run("test", str(upstream))
    assert code == 2
    line = file.read_text().splitlines().index("      luaScript: |") + 1
    place = f"{file}:{line}: ResourceInterpreterCustomization game: spec.customizations.healthInterpretation.luaScript"
    assert err.count("Lua script error: line 3") == 1
    assert f"{place}: Lua script error: line 3" in err


def test_a_script_that_fails_is_told_with_its_line(upstream: Path) -> None:
    file = upstream / "games.example.com" / "v1" / "Game" / "customizations.yaml"
    file.write_text(CUSTOMIZATION.replace("observedObj.status.ready", "observedObj.state.ready"))
    code, out, _ = run("test", str(upstream))
    assert code == 1
    assert "game/healthInterpretation:3: attempt to index a nil value (field 'state')" in out


def test_run_tells_what_a_script_printed(upstream: Path, tmp_path: Path) -> None:
    (tmp_path / "game.yaml").write_text(GAME)
    manifests = str(upstream / "games.example.com" / "v1" / "Game" / "customizations.yaml")
    code, out, err = run(
        "run",
        "--operation",
        "InterpretHealth",
        "--observed-file",
        str(tmp_path / "game.yaml"),
        "--manifests",
        manifests,
    )
    assert (code, out) == (0, "---\n# [1/1] healthy: (lua: ResourceInterpreterCustomization game)\ntrue\n")
    assert err == "seen\tg\n"


@pytest.mark.parametrize(
    ("before", "after", "code", "text"),
    [
        ("", "", 0, "ok   "),
        ("return observed", "return = observed", 1, "Lua script error: line 3: unexpected symbol near '='"),
        ("function InterpretHealth", "function Healthy", 1, "not found function InterpretHealth"),
        ("function InterpretHealth", "error('no')\n        function InterpretHealth", 1, "its top level fails: game/healthInterpretation:1: no"),
        ("function InterpretHealth(observedObj)", "if false then InterpretHealth = 1 end function x(observedObj)", 1, "there is no function InterpretHealth once its top level has run"),
        ('print("seen"', 'seen = true print("seen"', 0, "warning: spec.customizations.healthInterpretation.luaScript: line 2: seen is set as a global"),
        ("return observed", "if observedObj then return true end -- observed", 0, "warning: spec.customizations.healthInterpretation.luaScript: line 1: InterpretHealth does not return a value on every path"),
        ("observedObj.status.ready", "observdObj.status.ready", 0, "observdObj is undefined"),
    ],
)  # fmt: skip
def test_check_of_customizations(tmp_path: Path, before: str, after: str, code: int, text: str) -> None:
    file = tmp_path / "customization.yaml"
    file.write_text(CUSTOMIZATION.replace(before, after))
    found, out, _ = run("check", str(file))
    assert found == code
    assert text in out


def test_run_takes_customizations_where_karmadactl_does(upstream: Path, tmp_path: Path) -> None:
    (tmp_path / "game.yaml").write_text(GAME)
    customization = str(upstream / "games.example.com" / "v1" / "Game" / "customizations.yaml")
    ask = ("run", "--operation", "InterpretHealth", "-f", customization)
    answer = "---\n# [1/1] healthy: (lua: ResourceInterpreterCustomization game)\ntrue\n"
    for option in ("--desired-file", "--observed-file", "-f"):
        assert run(*ask, option, str(tmp_path / "game.yaml"))[:2] == (0, answer)
    code, _, err = run(*ask, "-f", str(tmp_path / "game.yaml"), "--desired-file", str(tmp_path / "game.yaml"))
    assert (code, err) == (
        2, "fleethook: -f and --desired-file give several objects: one question is about one of them\n",
    )  # fmt: skip
    code, _, err = run(*ask)
    assert (code, err) == (2, "fleethook: InterpretHealth needs a desired or an observed object\n")


def test_a_customization_that_no_fixture_asks_about_is_a_warning(upstream: Path) -> None:
    other = upstream / "other.yaml"
    other.write_text("\n" + CUSTOMIZATION.replace("kind: Game}", "kind: Match}").replace("name: game", "name: match"))
    code, out, err = run("test", str(upstream))
    assert (code, out) == (0, "ok   InterpretHealth      lua      ready\n1 passed, 0 failed\n")
    named = "games.example.com/v1 Match, for which ResourceInterpreterCustomization match has scripts"
    assert err == f"{other}:3: warning: no fixture asks about {named}\n"


def test_a_failure_of_shared_fixtures_is_told_with_the_line_of_its_test(tmp_path: Path) -> None:
    file = tmp_path / "shared.yaml"
    one = "desiredObj: d, output: {replica: 2}"
    file.write_text(
        "objects:\n  d: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2}}\ntests:\n"
        f"- {{name: right, operation: InterpretReplica, {one}}}\n"
        f"- {{name: wrong, operation: InterpretReplica, {one.replace('replica: 2', 'replica: 3')}}}\n"
    )
    code, out, _ = run("test", str(file))
    assert code == 1
    assert f"FAIL InterpretReplica     native   wrong\n     {file}:5\n" in out
    file.write_text(file.read_text() + f"- {{name: odd, operation: Nothing, {one}}}\n")
    code, _, err = run("test", str(file))
    assert code == 2
    assert f"{file}:6: operation 'Nothing' is unknown" in err


def test_check_lists_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "customization.yaml"
    file.write_text(
        f"{CUSTOMIZATION}    retention:\n      luaScript: function Retain(a, b) return a end\n"
        "    statusReflection:\n      luaScript: function Other(a) return a end\n"
    )
    code, out, _ = run("check", str(tmp_path))
    assert code == 1
    assert out.splitlines()[1:9] == [
        "     Retain               set", "     InterpretReplica     not set", "     InterpretComponent   not set",
        "     ReviseReplica        not set", "     InterpretStatus      refused", "     AggregateStatus      not set",
        "     InterpretHealth      set", "     InterpretDependency  not set",
    ]  # fmt: skip


def test_check_of_directories() -> None:
    code, out, _ = run("check", str(RETENTION), str(DIRECTORY))
    assert code == 0
    assert "ConfigMap karmada-config" in out
    assert "ResourceExploringWebhookConfiguration example" in out
    assert "db.example.com/v1 Database" in out


def test_check_of_karmada_config(tmp_path: Path) -> None:
    text = (RETENTION / "karmada-config.yaml").read_text()
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert run("check", str(file))[0] == 0
    file.write_text(text.replace("return desiredObj", "return desiredObj end"))
    code, out, _ = run("check", str(file))
    assert code == 1
    assert "data[retention.customizations][0].retention.lua: Lua script error: line 11" in out


# A test run in the background of a shell ignores SIGINT, and every process that it starts inherits that.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from app.cli import main
main()
"""


@contextlib.contextmanager
def watching(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", IO[str]]]:
    """Run the command until the block ends, but no longer than two minutes: then its output ends."""
    command = [sys.executable, "-c", INTERRUPTIBLE, "interpret", "test", *arguments, "--watch"]
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
def changing(file: Path, text: str) -> Iterator[None]:
    """Write a file again and again: a change is not seen before the file is watched."""
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


def until(end: str, output: IO[str]) -> str:
    found = ""
    while not found.endswith(end):
        line = output.readline()
        assert line, f"it ended: {found}"
        found += line
    return found


def test_watching_runs_again_when_something_changes(upstream: Path) -> None:
    file = upstream / "games.example.com" / "v1" / "Game" / "testdata" / "interprethealth-test.yaml"
    with watching(str(upstream)) as (process, output):
        until("1 passed, 0 failed\n", output)
        with changing(file, FIXTURE.replace("true}\n", "false}\n")):
            assert "expected false" in until("0 passed, 1 failed\n", output)
        process.send_signal(signal.SIGINT)
        output.read()
        assert process.wait(NET) == 0


def test_register_prints_what_karmada_has_to_send(upstream: Path, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("PEM")
    where = ("--service", "karmada-system/fleethook:8443", "--ca-file", str(authority))
    code, out, err = run("register", *where, "--manifests", str(upstream), "--interpreters", DATABASE)
    assert (code, err) == (0, "")
    printed = yaml.safe_load(out)
    (webhook,) = printed["webhooks"]
    assert (printed["kind"], printed["metadata"]["name"]) == ("ResourceInterpreterWebhookConfiguration", "fleethook")
    service = {"namespace": "karmada-system", "name": "fleethook", "path": "/interpret", "port": 8443}
    assert webhook["clientConfig"] == {"service": service, "caBundle": "UEVN"}
    rules = {kind: rule["operations"] for rule in webhook["rules"] for kind in rule["kinds"]}
    assert rules["Game"] == ["InterpretHealth"]
    assert rules["Database"] == ["InterpretReplica", "ReviseReplica", "InterpretHealth", "InterpretDependency"]
    assert "Retain" in rules["Deployment"]
    assert "CloneSet" in rules
    code, out, _ = run("register", *where, "--no-bundle", "-o", "json")
    assert not any("CloneSet" in rule["kinds"] for rule in json.loads(out)["webhooks"][0]["rules"])


def test_register_names_what_another_configuration_has(tmp_path: Path) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": ["Deployment"], "operations": ["Retain"]}
    other = {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "other"},
        "webhooks": [{"name": "w.example.org", "clientConfig": {"url": "https://x"}, "rules": [rule]}],
    }  # fmt: skip
    file = tmp_path / "other.yaml"
    file.write_text(yaml.safe_dump(other))
    code, out, err = run("register", "--webhook-url", "https://x:1", "--manifests", str(file))
    assert code == 0
    assert err.splitlines() == [
        "note: without --ca-file Karmada trusts the authorities of its system only",
        "note: Retain of apps/v1 Deployment is not registered: webhook other/w.example.org already has it",
    ]
    (webhook,) = yaml.safe_load(out)["webhooks"]
    (operations,) = (one["operations"] for one in webhook["rules"] if "Deployment" in one["kinds"])
    assert "Retain" not in operations


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "where is the server: give one of --service and --webhook-url"),
        (("--service", "a/b", "--webhook-url", "https://x"), "give one of --service and --webhook-url"),
        (("--service", "a/b", "--ca-file", "/nowhere"), "--ca-file cannot be read"),
    ],
)
def test_register_needs_to_know_where_the_server_is(arguments: tuple[str, ...], problem: str) -> None:
    code, _, err = run("register", *arguments)
    assert code == 2
    assert problem in err
