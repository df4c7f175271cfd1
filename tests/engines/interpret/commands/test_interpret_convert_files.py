import json
from pathlib import Path

import pytest
import yaml

from fleethook.cli.options import InputOptions
from fleethook.engines.interpret.commands.interpret_convert_files import format_customization, read_input
from fleethook.model.gvk import GroupVersionKind
from tests.cli.commands import invoke
from tests.cli.interpreting import run
from tests.serving import EXAMPLES

WIDGET = GroupVersionKind("example.com", "v1", "Widget")
OBJECT = "apiVersion: example.com/v1\nkind: Widget\n"


def write(directory: Path, **files: str) -> Path:
    """Write files by their paths below a directory, and return the directory."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("example.com/Widget", "example.com/Widget"),
        ("resource_customizations/apps/Deployment", "apps/Deployment"),
        ("resource_customizations/Pod", "Pod"),
        ("resource_customizations/_.example.com/_", "*.example.com/*"),
        ("example.com/_", "example.com/*"),
    ],
)
def test_the_directory_of_a_script_names_its_kind(tmp_path: Path, path: str, pattern: str) -> None:
    file = write(tmp_path, **{f"{path}/health.lua": "return {}"}) / path / "health.lua"
    for given in (tmp_path, file):
        found = read_input([given], InputOptions(), [])
        assert [(one.pattern, one.place.source) for one in found.checks] == [(pattern, str(file))]
        assert (found.remarks, found.errors) == ([], [])


def test_a_script_elsewhere_gets_its_kind_from_its_tests_or_from_the_option(tmp_path: Path) -> None:
    write(tmp_path, **{"mine/health.lua": "return {}", "mine/other.lua": "return {}"})
    file = tmp_path / "mine" / "health.lua"
    assert [one.code for one in read_input([file], InputOptions(), []).remarks] == ["no-kind"]
    assert read_input([file], InputOptions(), [WIDGET]).checks[0].kinds == (WIDGET,)
    write(tmp_path, **{"mine/health_test.yaml": "tests: [{inputPath: a.yaml}]", "mine/a.yaml": OBJECT})
    [check] = read_input([tmp_path], InputOptions(), []).checks
    assert (check.pattern, check.kinds) == ("example.com/Widget", (WIDGET,))


def test_tests_are_read_as_in_argo_cd(tmp_path: Path) -> None:
    tests = """\
tests:
  - healthStatus: {status: Healthy, message: ready}
    inputPath: testdata/a.yaml
  - HealthStatus: {status: Degraded}
    inputpath: testdata/b.yaml
  - inputPath: testdata/missing.yaml
  - inputPath: testdata/broken.yaml
  - inputPath: testdata/text.yaml
  - healthStatus: {status: Healthy}
"""
    kind = "example.com/Widget"
    write(
        tmp_path,
        **{
            f"{kind}/health.lua": "return {}",
            f"{kind}/health_test.yaml": tests,
            f"{kind}/testdata/a.yaml": OBJECT,
            f"{kind}/testdata/b.yaml": f"{OBJECT}spec: {{}}\n---\nkind: Other\n",
            f"{kind}/testdata/broken.yaml": f"{OBJECT}a: [",
            f"{kind}/testdata/text.yaml": "text",
            f"{kind}/actions/discovery.lua": "return {}",
            f"{kind}/actions/pause/action.lua": "return obj",
            f"{kind}/actions/action_test.yaml": "actionTests: []",
        },
    )
    found = read_input([tmp_path], InputOptions(strict=True), [])
    assert [(one.name, one.status, one.kind, one.place.line) for one in found.tests] == [
        ("testdata/a.yaml", "Healthy", WIDGET, 2),
        ("testdata/b.yaml", "Degraded", WIDGET, 4),
    ]
    assert [(one.level, one.code, one.place.line) for one in found.remarks] == [
        ("error", "test", 6),
        ("error", "test", 7),
        ("error", "test", 8),
        ("error", "test", 9),
    ]
    assert found.errors == []


def test_definitions_and_objects_give_versions_and_unreadable_files_do_not_hide_others(tmp_path: Path) -> None:
    definition = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget}
  versions: [{name: v1, served: true}, {name: v0, served: false}]
"""
    write(
        tmp_path,
        **{
            "crd.yaml": f"{definition}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\n",
            "broken.yaml": "a: [",
            "example.com/Widget/health.lua": "return {}",
        },
    )
    (tmp_path / "example.com" / "Gadget").mkdir()
    (tmp_path / "example.com" / "Gadget" / "health.lua").write_bytes(b"return {} -- \xff")
    found = read_input([tmp_path], InputOptions(), [])
    assert found.kinds == [WIDGET, GroupVersionKind("", "v1", "Pod")]
    assert [one.pattern for one in found.checks] == ["example.com/Widget"]
    assert [Path(one.source).name for one in found.errors] == ["broken.yaml", "health.lua"]
    excluded = read_input([tmp_path], InputOptions(exclude=["Widget", "Gadget", "broken.yaml"]), [])
    assert (excluded.checks, excluded.errors) == ([], [])


ARGOCD = EXAMPLES / "testdata" / "argocd"
GAME_SERVER = ARGOCD / "games.example.com"


def convert(*arguments: str | Path) -> tuple[int, str, str]:
    return run("convert", "--from", "argocd", *map(str, arguments))


def test_the_written_files_pass_the_checks_and_the_fixtures(tmp_path: Path) -> None:
    code, out, report = convert(GAME_SERVER, "--output-dir", tmp_path)
    assert (code, out) == (0, "")
    assert report.splitlines()[-1] == "health checks: 1, customizations: 1, fixtures that pass: 3 of 3"
    assert invoke(["lint", str(tmp_path), "--strict"]).exit_code == 0
    code, out, _ = run("test", str(tmp_path))
    assert (code, out.splitlines()[-1]) == (0, "3 passed, 0 failed")


def test_existing_files_stay(tmp_path: Path) -> None:
    assert convert(GAME_SERVER, "--output-dir", tmp_path)[0] == 0
    assert convert(GAME_SERVER, "--output-dir", tmp_path)[0] == 0
    file = tmp_path / "games.example.com" / "v1" / "GameServer" / "customizations.yaml"
    file.write_text("mine")
    code, _, report = convert(GAME_SERVER, "--output-dir", tmp_path)
    assert (code, file.read_text()) == (1, "mine")
    assert f"{file}: error: games.example.com/GameServer: the file exists with other content" in report


def test_the_output_is_a_stream_of_customizations_or_json_with_the_report() -> None:
    code, out, report = convert(ARGOCD, "--kind", "games.example.com/v1/Tournament")
    assert code == 1
    objects = list(yaml.safe_load_all(out))
    assert [one["metadata"]["name"] for one in objects] == [
        "gameserver-v1.games.example.com",
        "tournament-v1.games.example.com",
    ]
    assert f"{ARGOCD / 'argocd-cm.yaml'}:17: error: *.example.org/*: wildcards have no counterpart" in report
    assert report.splitlines()[-1] == "fleethook: 1 error, 1 warning"
    code, out, _ = convert(ARGOCD, "--kind", "games.example.com/v1/Tournament", "-o", "json")
    found = json.loads(out)
    assert (code, found["objects"]) == (1, objects)
    assert [len(one["tests"]) for one in found["fixtures"]] == [3]
    assert {(one["level"], one["code"]) for one in found["report"]} == {
        ("warning", "no-counterpart"), ("error", "wildcard"), ("note", "mapping"),
    }  # fmt: skip


def test_a_test_whose_fixture_fails_is_an_error_at_its_line(tmp_path: Path) -> None:
    directory = tmp_path / "example.com" / "Widget"
    directory.mkdir(parents=True)
    (directory / "health.lua").write_text("if obj.status.fails then error('no') end\nreturn {status = 'Healthy'}")
    for name in ("degraded", "fails"):
        (directory / f"{name}.yaml").write_text(f"apiVersion: example.com/v1\nkind: Widget\nstatus: {{{name}: true}}")
    tests = [{"healthStatus": {"status": "Degraded"}, "inputPath": f"{name}.yaml"} for name in ("degraded", "fails")]
    (directory / "health_test.yaml").write_text(yaml.safe_dump({"tests": tests}))
    code, out, report = convert(tmp_path)
    assert (code, len(list(yaml.safe_load_all(out)))) == (1, 1)
    lines = [line for line in report.splitlines() if "the fixture fails" in line]
    place = f"{directory / 'health_test.yaml'}"
    assert lines[0] == (
        f"{place}:2: error: example.com/Widget: the fixture fails: degraded.yaml is Degraded: healthy: expected False, "
        "found True"
    )
    assert lines[1].startswith(f"{place}:5: error: example.com/Widget: the fixture fails: fails.yaml is Degraded: ")
    assert lines[1].endswith(": no")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give health checks to convert"),
        ((str(EXAMPLES / "retention"),), "nothing to convert"),
        ((str(GAME_SERVER), "--kind", "Widget"), "--kind Widget: expected GROUP/VERSION/KIND"),
        (("/nowhere",), "/nowhere: cannot be read"),
    ],
)
def test_input_without_health_checks_is_an_error(arguments: tuple[str, ...], message: str) -> None:
    code, out, report = convert(*arguments)
    assert (code, out) == (2, "")
    assert message in report


def test_warnings_are_errors_with_strict(tmp_path: Path) -> None:
    data = {"resource.customizations.actions.example.com_Widget": "x"}
    file = tmp_path / "argocd-cm.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}))
    assert convert(file)[0] == 0
    assert convert(file, "--strict")[0] == 1


@pytest.mark.parametrize(
    "script",
    ["a\n", "a\n\n  b \n\tc\n \n", " a\n", "a", "a\n\n", "\n", "é\n", "\x07\n", "a: 'b' # c\n", "\u2028\n", ""],
)
def test_the_yaml_of_a_customization_has_its_script_unchanged(script: str) -> None:
    document = {
        "metadata": {"name": "luaScript"},
        "spec": {"target": {"kind": "a"}, "customizations": {"healthInterpretation": {"luaScript": script}}},
    }
    assert yaml.safe_load(format_customization(document)) == document
