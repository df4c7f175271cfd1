"""The forms of objects that commands take: files as options and arguments, and forms of the last release."""

from pathlib import Path

import pytest

from fleethook.cli.options import load_settings
from fleethook.server_settings import CONFIG_VARIABLE
from tests.cli.commands import invoke
from tests.serving import EXAMPLES

STORY = str(EXAMPLES / "yurtappoverrider" / "story-2")
KCP = str(EXAMPLES / "kcp-widgets")
WIDGET = str(EXAMPLES / "kcp-widgets" / "testdata" / "widget.yaml")
CLUSTER = ["--cluster", "ws3"]


@pytest.mark.parametrize(
    ("new", "other"),
    [
        (["render", "-f", STORY], ["render", STORY]),
        (["lint", "--filename", STORY], ["lint", STORY]),
        (["diff", "-f", STORY, "--against", STORY], ["diff", STORY, "--against", STORY]),
        (["explain", "--request", WIDGET, *CLUSTER, "-f", KCP], ["explain", "--request", WIDGET, *CLUSTER, KCP]),
    ],
)
def test_arguments_mean_the_same_as_the_option(new: list[str], other: list[str]) -> None:
    assert invoke(new) == invoke(other)
    assert invoke(new).stdout or new[0] == "lint"


def test_one_subject_is_chosen_by_its_name() -> None:
    found = invoke(["render", STORY, "--subject", "yurtappset/yurtappset-demo", "-n", "story-2", "--pool", "hangzhou"])
    assert (found.exit_code, found.stdout.count("---")) == (0, 1)
    missing = invoke(["render", STORY, "--subject", "YurtAppSet/other"])
    assert missing.exit_code == 2
    assert "the files have no YurtAppSet/other with a node pool" in missing.stderr


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    monkeypatch.delenv("FLEETHOOK_PORT", raising=False)


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    return file


def test_flags_precede_the_environment_and_the_environment_precedes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "port: 1001\n")
    assert load_settings({}, file).port == 1001
    monkeypatch.setenv("FLEETHOOK_PORT", "1002")
    assert load_settings({}, file).port == 1002
    assert load_settings({"port": 1003}, file).port == 1003


def test_a_missing_file_and_an_invalid_setting_end_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        load_settings({}, tmp_path / "none.yaml")
    assert "none.yaml is not a file" in capsys.readouterr().err
    for text, problem in (
        ("port: nowhere\n", "port: "),
        ("prot: 1\n", "prot: there is no such setting\n"),
        ("webhook_url: http://a\n", "webhook_url: 'http://a' does not match ^https://\n"),
    ):
        with pytest.raises(SystemExit):
            load_settings({}, write(tmp_path, text))
        assert f"fleethook: settings: {problem}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (CONFIG_VARIABLE, "none.yaml", "$FLEETHOOK_CONFIG: none.yaml is not a file"),
        ("FLEETHOOK_ENGINES", "rules", 'settings: error parsing value for field "engines" from source '),
    ],
)
def test_an_unusable_environment_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, problem: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        load_settings({}, None)
    assert capsys.readouterr().err.startswith(f"fleethook: {problem}")


@pytest.mark.parametrize("text", ["a: [", "- 1", "word", "port: \xe9"])
def test_a_file_without_settings_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(SystemExit) as left:
        load_settings({}, file)
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith(f"fleethook: --config: {file}: not YAML with settings: ")
