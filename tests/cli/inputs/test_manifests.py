"""Files, directories and standard input as the manifests of a command."""

import io
from pathlib import Path

import pytest

from fleethook.cli.inputs.manifests import find_unused, read_manifests, read_objects, read_values
from fleethook.cli.options import InputOptions
from tests.cli.commands import invoke

OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


def test_directories_are_read_in_order_and_without_testdata(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.txt", "testdata/fixture.yaml", "sub/d.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(OBJECT % name.replace("/", "-"))
    assert [one.object["metadata"]["name"] for one in read_objects([tmp_path])] == ["a.yml", "b.yaml", "sub-d.yaml"]
    (fixture,) = {one.source for one in read_manifests([tmp_path], testdata=True).documents if "testdata" in one.source}
    assert fixture == str(tmp_path / "testdata" / "fixture.yaml")


def test_a_named_file_is_read_from_testdata(tmp_path: Path) -> None:
    file = tmp_path / "testdata" / "a.yaml"
    file.parent.mkdir()
    file.write_text(OBJECT % "a")
    (document,) = read_objects([file])
    assert (document.object["metadata"]["name"], document.source, document.line) == ("a", str(file), 1)


def test_a_skipped_document_of_a_named_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("replicas: 2\n")
    read_manifests([file])
    skipped = "note: skipped 1 document that is no Kubernetes object"
    assert capsys.readouterr().err == f"{skipped}\nnote: {file}:1: has neither apiVersion nor kind\n"
    read_manifests([tmp_path])
    assert capsys.readouterr().err == f"{skipped} (--verbose names them)\n"


def test_only_named_files_that_nothing_uses_are_errors(tmp_path: Path) -> None:
    paths = [tmp_path, tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "c.yaml", Path("-")]
    found = find_unused(paths, {str(tmp_path / "a.yaml")}, "fixture", InputOptions(exclude=["c.yaml"]))
    assert [str(one) for one in found] == [
        f"{name}: is not used: it has no fixture" for name in (tmp_path / "b.yaml", "<stdin>")
    ]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"---\n{OBJECT % 'a'}".encode())))
    (document,) = read_objects([Path("-")])
    assert (document.source, document.line) == ("<stdin>", 2)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a: [", "a.yaml:2: "),
        (b"\xff", "a.yaml:1: the byte 0xff is not valid UTF-8"),
    ],
)
def test_unreadable_files_exit_2_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, problem: str
) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(content)
    with pytest.raises(SystemExit) as left:
        read_values(file)
    assert left.value.code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("words", ["lint {}", "replay {} -f .", "lint --kubeconfig {}", "console {}"])
def test_a_path_that_cannot_be_examined_exits_2(words: str) -> None:
    """So does a path below a directory that the user may not read."""
    done = invoke(words.format("x" * 5000).split())
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert done.stderr.endswith(": File name too long\n")


def test_a_file_of_rules_is_read_as_the_configurations_of_its_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.py"
    rule = '@{}("v1", "Pod")\ndef {}(pod): pass\n'
    file.write_text("from fleethook.admission import *\n" + rule.format("validate", "a") + rule.format("mutate", "b"))
    found = read_objects([file])
    assert [(one.place, one.object["kind"], one.object["metadata"]["name"]) for one in found] == [
        (f"{file}:4", "MutatingWebhookConfiguration", "b"),
        (f"{file}:2", "ValidatingWebhookConfiguration", "a"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"), [("broken(", "rules.py:1: SyntaxError"), ("a = 1", "rules.py: the file has no rule")]
)
def test_a_broken_file_of_rules_is_unreadable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str
) -> None:
    (tmp_path / "rules.py").write_text(text)
    with pytest.raises(SystemExit) as caught:
        read_objects([tmp_path / "rules.py"])
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err
