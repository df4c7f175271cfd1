from pathlib import Path

import pytest

from fleethook.cli.options import InputOptions
from fleethook.engines.interpret.commands.argocd_files import read_input
from fleethook.model.gvk import GroupVersionKind

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
        ("warning", "no-counterpart", 0),
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
