"""Results for CI systems."""

import gzip
import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs

from fleethook.cli.fixture_results import Case, print_junit
from fleethook.cli.output.findings_output import FindingRow, write_annotations
from fleethook.cluster.manifests.yaml_decoding_and_lines import ManifestError
from tests.builders import entry, image, overrider, yurt_app_set
from tests.cli.commands import invoke
from tests.cli.conftest import WriteYAML
from tests.cli.interpreting import CUSTOMIZATION, FIXTURE
from tests.serving import EXAMPLES, REVIEW

STORY = EXAMPLES / "yurtappoverrider" / "story-2"
ERRORS = {"broken.yaml:2", "broken.yaml:5", "latin.yaml:1", "packed.yaml:1"}
COMMANDS = [
    ("lint", "-f"), ("render", "-f"), ("explain", "--request", "-", "-f"),
    ("diff", "-f", "examples/nodepools.yaml", "--against"), ("interpret", "test"),
    ("replay", str(REVIEW), "-f"),
]  # fmt: skip


def run_lint(*words: str) -> tuple[int, str, str]:
    result = invoke(words)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with manifests, a fixture, and files of other tools."""
    found = tmp_path / "deploy"
    shutil.copytree(STORY, found)
    (found / "pools.yaml").write_text(
        "".join(f"---\napiVersion: apps.openyurt.io/v1beta2\nkind: NodePool\nmetadata: {{name: {name}}}\n" for name in ("hangzhou", "beijing"))
    )  # fmt: skip
    (found / "chart").mkdir()
    (found / "chart" / "values.yaml").write_text("replicaCount: 1\n")
    (found / "kustomization.yaml").write_text("resources: [overrider.yaml]\n")
    (found / "customization.yaml").write_text(CUSTOMIZATION)
    (found / "game-test.yaml").write_text(FIXTURE)
    (found / "setup.py").write_text("raise SystemExit('only for builds')\n")
    (found / "README.md").write_text("# Deploy\n")
    return found


def add_unreadable_files(directory: Path) -> None:
    (directory / "broken.yaml").write_text("---\nkind: X\n---\na: [\n")
    (directory / "latin.yaml").write_bytes(b"# caf\xe9\n")
    (directory / "packed.yaml").write_bytes(gzip.compress(b"a: b", mtime=0))


def find_places(directory: Path, text: str) -> set[str]:
    return {place for place in ERRORS if f"{directory}/{place}" in text}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_other_files_are_skipped_named_refused_or_left_out(command: tuple[str, ...], directory: Path) -> None:
    words = (*command, str(directory))
    number = 2 if command == ("interpret", "test") else 3
    note = f"note: skipped {number} documents that are no Kubernetes objects"
    code, _, err = run_lint(*words)
    # Both have nothing to do.
    assert (code == 2, f"{note} (--verbose names them)\n" in err) == (command[0] in ("explain", "replay"), True)
    _, _, err = run_lint(*words, "--verbose")
    assert f"{note}\nnote: {directory}/chart/values.yaml:1: has neither apiVersion nor kind\n" in err
    code, _, err = run_lint(*words, "--strict")
    assert (code, f"fleethook: {directory}/kustomization.yaml:1: has neither" in err) == (2, True)
    _, _, err = run_lint(*words, "--exclude", "chart", "--exclude", "kustomization.*", "--exclude", "*-test.yaml")
    assert "note: skipped" not in err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_unreadable_documents_end_a_command_or_are_its_results(command: tuple[str, ...], directory: Path) -> None:
    add_unreadable_files(directory)
    code, out, err = run_lint(*command, str(directory), "--output", "json")
    assert code == 2
    assert find_places(directory, err) == ERRORS
    if command[0] in ("lint", "interpret"):
        # A fixture has file and line as two members.
        assert find_places(directory, out.replace('",\n    "line": ', ":")) == ERRORS
    else:
        assert out == ""


def test_unreadable_documents_are_annotations_beside_the_other_findings(directory: Path) -> None:
    add_unreadable_files(directory)
    (directory / "customization.yaml").write_text(
        CUSTOMIZATION.replace("return observedObj", "return x + + observedObj")
    )
    code, out, _ = run_lint("lint", str(directory), "--output", "github")
    lines = [one for one in out.splitlines() if "title=unreadable-input" in one]
    places = {
        one.split("file=")[1].split(",title")[0].removeprefix(f"{directory}/").replace(",line=", ":") for one in lines
    }
    assert (code, places) == (2, ERRORS)
    assert len(out.splitlines()) > len(lines)


def test_fixtures_run_beside_unreadable_documents(directory: Path) -> None:
    add_unreadable_files(directory)
    code, out, _ = run_lint("interpret", "test", str(directory))
    assert (code, "1 passed, 0 failed" in out) == (2, True)
    code, out, _ = run_lint("interpret", "test", str(directory), "--output", "junit")
    suite = ET.fromstring(out)
    assert (code, suite.get("tests"), suite.get("failures")) == (2, "5", "4")


def test_a_script_that_cannot_be_used_is_a_result_of_a_test(directory: Path) -> None:
    (directory / "customization.yaml").write_text(CUSTOMIZATION.replace("function", "functio"))
    code, out, _ = run_lint("interpret", "test", str(directory), "--output", "json")
    unusable, unanswered = json.loads(out)
    assert (code, unusable["file"], unusable["operation"]) == (2, f"{directory}/customization.yaml", "")
    assert (unanswered["operation"], unanswered["passed"]) == ("InterpretHealth", False)


def test_a_python_file_that_cannot_be_loaded_is_an_annotation(directory: Path) -> None:
    file = directory / "broken_interpreter.py"
    file.write_text("import fleethook.interpret\n\ndef (\n")
    code, out, _ = run_lint("lint", str(file), "--output", "github")
    assert (code, f"::error file={file},line=3,title=unreadable-input::" in out) == (2, True)


def test_no_workload_is_printed_if_one_could_be_wrong(directory: Path) -> None:
    add_unreadable_files(directory)
    code, out, err = run_lint("render", "-f", str(directory))
    assert (code, out) == (2, "")
    assert "warning: YurtAppOverrider story-2/demo1" in err


def test_input_errors_are_annotations(capsys: pytest.CaptureFixture[str]) -> None:
    errors = [ManifestError("a.yaml", 3, "no"), ManifestError("<stdin>", 0, "none")]
    write_annotations((), errors)
    assert capsys.readouterr().out.splitlines() == [
        "::error file=a.yaml,line=3,title=unreadable-input::a.yaml: no",
        "::error title=unreadable-input::<stdin>: none",
    ]


ROW = FindingRow(
    level="warning", code="no-effect", cluster="ws1", kind="YurtAppOverrider", namespace="demo", name="a",
    webhook="", field="entries[0]", text="has no effect", place="dir/a.yaml:12",
)  # fmt: skip


def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    result = invoke(arguments, stdin=stdin)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("dir/a.yaml:12", "file=dir/a.yaml,line=12,"),
        ("a,b:c.yaml:4", "file=a%2Cb%3Ac.yaml,line=4,"),
        ("<stdin>:3", ""),
        ("cluster", ""),
        ("", ""),
    ],
)
def test_github_gets_one_command_for_each_finding(place: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_annotations([structs.replace(ROW, place=place, text="100% wrong:\nline two")])
    message = "YurtAppOverrider demo/a of ws1: entries[0]: 100%25 wrong:%0Aline two"
    assert capsys.readouterr().out == f"::warning {shown}title=no-effect::{message}\n"


def test_a_name_cannot_start_another_command(write_yaml: WriteYAML) -> None:
    rule = overrider(entry("x\n::error file=/etc/passwd::forged"))
    code, out, err = run("lint", "-f", write_yaml("a.yaml", yurt_app_set(), rule), "-o", "github")
    assert (code, err) == (1, "")
    assert all(line.startswith(("::error file=", "::warning file=")) for line in out.splitlines())
    assert "::error file=/etc" not in [line[:17] for line in out.splitlines()]
    assert "%0A::error" in out or "\\n::error" in out


def test_findings_of_standard_input_have_no_file(write_yaml: WriteYAML) -> None:
    text = json.dumps(overrider(entry("nowhere", items=[image("nginx", "nginx:2")])))
    _, out, _ = run("lint", "-f", "-", "-f", write_yaml("a.yaml", yurt_app_set()), "-o", "github", stdin=text)
    assert out.startswith("::error title=")


def test_cases_and_failures_are_valid_xml_with_any_text(capsys: pytest.CaptureFixture[str]) -> None:
    odd = '<&"\x00\x1b[31m'
    print_junit("run", [Case("g", odd, ["first", odd], 0.5), Case(odd, "b", ["only"]), Case("g", "c")])
    suite = ET.fromstring(capsys.readouterr().out)
    assert suite.attrib == {"name": "run", "tests": "3", "failures": "2"}
    first, second, third = suite.findall("testcase")
    assert first.attrib == {"classname": "g", "name": '<&"\\x00\\x1b[31m', "time": "0.500000"}
    assert [one.findtext("failure") for one in (first, second, third)] == ['first\n<&"\\x00\\x1b[31m', "", None]
    failure = second.find("failure")
    assert failure is not None
    assert failure.attrib == {"message": "only"}
