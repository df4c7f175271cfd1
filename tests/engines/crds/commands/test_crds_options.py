"""The sources that the arguments of ``fleethook crds`` select."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.cli.options import Output
from fleethook.engines.crds.commands.crds_options import (
    DownloadOptions,
    check_reach,
    check_sha256,
    check_version,
    exit_on_error,
    read_file,
    select_sources,
    show,
    warn,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.source_selection import SecretReferences, SelectedSource
from fleethook.engines.crds.tarball_source import Policy, Source
from tests.cli.conftest import WriteYAML


@pytest.mark.parametrize("code", [one for one in Exit if one is not Exit.OK])
def test_an_error_ends_the_command_with_its_code(capsys: pytest.CaptureFixture[str], code: Exit) -> None:
    with pytest.raises(SystemExit) as caught, exit_on_error():
        raise CRDsError(code, "no\x1b[0m")
    assert caught.value.code == code
    assert capsys.readouterr().err == "fleethook: no\\x1b[0m\n"


def test_an_interruption_tells_what_has_happened(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught, exit_on_error("two CRDs are applied"):
        raise KeyboardInterrupt
    assert caught.value.code == 130
    assert capsys.readouterr().err == "fleethook: interrupted; two CRDs are applied\n"


def test_other_errors_and_success_pass() -> None:
    with exit_on_error():
        pass
    with pytest.raises(ZeroDivisionError), exit_on_error():
        raise ZeroDivisionError


def test_a_result_is_lines_or_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    show(Output.TEXT, ["a", "b\n"], {"a": 1})
    show(Output.JSON, ["a", "b"], {"a": "é"})
    assert capsys.readouterr().out == 'a\nb\\n\n{"a": "\\u00e9"}\n'


def test_warnings_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    warn(("one", "two"))
    assert capsys.readouterr() == ("", "warning: one\nwarning: two\n")


URL = "https://h/crds.tar.gz"
DEMO = {
    "apiVersion": "operator.karmada.io/v1alpha1",
    "kind": "Karmada",
    "metadata": {"name": "demo", "namespace": "n"},
    "spec": {"crdTarball": {"httpSource": {"url": "https://instance/crds.tar.gz"}}},
}


def select(url: str | None, karmada: list[Path] | None, version: str | None) -> list[SelectedSource]:
    return list(select_sources(url, karmada, DownloadOptions(version)))


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(CRDsError) as caught:
        call(*arguments)
    assert caught.value.exit is Exit.USAGE
    return str(caught.value)


def test_a_url_a_release_or_each_instance_is_a_source(write_yaml: WriteYAML) -> None:
    (chosen,) = select(URL, None, None)
    assert (chosen.source.url, chosen.policy) == (URL, Policy.IF_NOT_PRESENT)
    (chosen,) = select(None, None, "v1.17.0")
    assert "v1.17.0" in chosen.source.url
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}
    path = Path(write_yaml("k.yaml", DEMO, other, DEMO))
    assert [one.source.url for one in select(None, [path], None)] == ["https://instance/crds.tar.gz"] * 2
    assert select(URL, None, "v1.17.0")[0].source.url == URL


def test_missing_and_contradictory_arguments_are_refused(write_yaml: WriteYAML) -> None:
    path = Path(write_yaml("k.yaml", DEMO))
    empty = Path(write_yaml("e.yaml", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}))
    assert refusal(select, None, None, None).startswith("give a URL, --karmada FILE or --version RELEASE")
    assert refusal(select, URL, [path], None) == "give a URL or --karmada, not both"
    assert refusal(select, None, [empty], None) == f"there is no Karmada in {empty}"
    assert refusal(select, None, [path, empty], None) == f"{empty}: is not used: it has no Karmada"
    assert "soon" in refusal(select, None, [path], "soon")


@pytest.mark.parametrize(("text", "digest"), [("", ""), ("A" * 64, "a" * 64), ("0" * 64, "0" * 64)])
def test_a_digest_is_in_lowercase(text: str, digest: str) -> None:
    assert check_sha256(text) == digest


@pytest.mark.parametrize("text", ["0" * 63, "0" * 65, "g" * 64, "\u0660" * 64, "0" * 64 + "\n"])
def test_another_text_is_no_digest(text: str) -> None:
    assert refusal(check_sha256, text).endswith("must be 64 hexadecimal digits, as `crds pin` prints them")


def test_the_prefix_of_a_digest_and_the_missing_v_of_a_release_are_hinted_at() -> None:
    assert refusal(check_sha256, "SHA256:" + "0" * 64).endswith("; leave out the prefix sha256:")
    assert refusal(check_version, "1.17.0").endswith("; did you mean v1.17.0?")
    assert refusal(check_version, "latest").endswith("must be a release such as v1.18.0")
    assert check_version("v1.17.0") == "v1.17.0"


def test_only_a_source_without_secrets_can_be_downloaded_here() -> None:
    chosen = SelectedSource(Source(URL), Policy.IF_NOT_PRESENT)
    check_reach(chosen)
    text = refusal(check_reach, chosen._replace(references=SecretReferences("b", proxy="a")))
    assert text == "the tarball needs the Secret a, b, which only a controller reads"


def test_a_file_that_cannot_be_read_names_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert read_file(tmp_path / "file") == b"x"
    assert refusal(read_file, tmp_path / "absent") == f"{tmp_path}/absent: No such file or directory"
