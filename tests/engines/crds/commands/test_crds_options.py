"""The sources that the arguments of ``fleethook crds`` select."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.cli.options import TextOutput
from fleethook.engines.crds.commands.crds_options import (
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
from fleethook.engines.crds.provenance.attestation import MAX_BYTES
from fleethook.engines.crds.tarball_source import Policy, Source
from tests.cli.commands import Result, invoke
from tests.cli.conftest import WriteYAML
from tests.engines.crds.origin import Origin, serving, tarball
from tests.engines.crds.provenance.signing import REF, SOURCE, Sigstore, statement
from tests.engines.crds.tarballs import build, small


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
    show(TextOutput.TEXT, ["a", "b\n"], {"a": 1})
    show(TextOutput.JSON, ["a", "b"], {"a": "é"})
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
    return list(select_sources(url, karmada, version, follow_instance=False, strict=False))


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


RELEASE = build(small())
SHA256 = hashlib.sha256(RELEASE).hexdigest()
SIGSTORE = Sigstore()
TRUSTED = "--provenance", "bundle.jsonl", "--trust-root", "root.json"
LOGS = ["certificate transparency", "transparency log", "signing time"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    Path("crds.tar.gz").write_bytes(RELEASE)
    Path("bundle.jsonl").write_text(json.dumps(SIGSTORE.bundle(statement(SHA256))))
    Path("envelope.jsonl").write_text(json.dumps(SIGSTORE.envelope(statement(SHA256))))
    Path("other.jsonl").write_text(json.dumps(SIGSTORE.bundle(statement("ab" * 32))))
    Path("root.json").write_text(json.dumps(SIGSTORE.trusted_root()))
    Path("root.pem").write_bytes(SIGSTORE.pem)

    def run(*arguments: object, code: int = 0) -> Result:
        result = invoke(["crds", "--data-dir", "data", *map(str, arguments)])
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving(tarball(RELEASE)) as running:
        yield running


def test_verify_prints_the_checks(run: Any) -> None:
    shown = run("verify", "crds.tar.gz", *TRUSTED, "--source-tag", "v1.14.0", "--strict").stdout
    assert "  provenance, bundle:\n    verified      signature: belongs to the statement and the certificate\n" in shown
    assert f"for {SOURCE} at {REF}" in shown
    assert "    verified      signing time: 2025-05-30T08:00:05Z, while the certificate was valid" in shown
    assert "not verified" not in shown


@pytest.mark.parametrize(
    ("file", "root", "open_points"),
    [("bundle", "root.json", []), ("envelope", "root.json", LOGS[1:]), ("bundle", "root.pem", LOGS), ("envelope", "root.pem", LOGS)],
)  # fmt: skip
def test_json_output_has_each_check(run: Any, file: str, root: str, open_points: list[str]) -> None:
    given = "--provenance", f"{file}.jsonl", "--trust-root", root
    found = json.loads(run("verify", "crds.tar.gz", *given, "--output", "json").stdout)["provenance"]
    assert (found["form"], found["source"], found["ref"]) == (file, SOURCE, REF)
    assert [check["name"] for check in found["checks"] if not check["verified"]] == open_points
    refused = run("verify", "crds.tar.gz", *given, "--strict", code=23 if open_points else 0)
    assert all(name in refused.stderr for name in open_points)


def test_the_tarball_of_another_attestation_is_refused(run: Any) -> None:
    other = "--provenance", "other.jsonl", "--trust-root", "root.json"
    assert f"has digest {SHA256}, and {'ab' * 32} is expected" in run("verify", "crds.tar.gz", *other, code=23).stderr
    run("cache", "import", "crds.tar.gz", "--url", "http://origin.test/crds.tar.gz", *other, code=23)
    assert run("cache", "ls").stdout == "the cache is empty\n"


def test_import_keeps_a_tarball_whose_attestation_holds(run: Any) -> None:
    given = "cache", "import", "crds.tar.gz", "--url", "http://origin.test/crds.tar.gz", *TRUSTED
    assert "    verified      identity: " in run(*given).stdout
    assert json.loads(run(*given, "-o", "json").stdout)["provenance"]["form"] == "bundle"


def test_fetch_takes_the_digest_of_the_attestation_as_pin(run: Any, origin: Origin) -> None:
    assert "  provenance, bundle:" in run("fetch", origin.url, *TRUSTED).stdout
    assert json.loads(run("fetch", origin.url, *TRUSTED, "-o", "json").stdout)["provenance"]["checks"]
    run("fetch", origin.url, "--policy", "Always", "--provenance", "other.jsonl", "--trust-root", "root.json", code=23)


def test_fetch_of_a_release_takes_its_tag(run: Any) -> None:
    shown = run("fetch", "--version", "v1.15.0", *TRUSTED, code=23).stderr
    assert f"the certificate's source ref is {REF}, and refs/tags/v1.15.0 is expected" in shown


def test_pin_prints_the_digest_alone_on_standard_output(run: Any, origin: Origin) -> None:
    shown = run("pin", origin.url, *TRUSTED)
    assert shown.stdout == f"{SHA256}\n"
    assert "verified      transparency log" in shown.stderr
    assert json.loads(run("pin", origin.url, *TRUSTED, "-o", "json").stdout)["provenance"]["form"] == "bundle"
    run("pin", origin.url, "--provenance", "other.jsonl", "--trust-root", "root.json", code=23)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--provenance", "bundle.jsonl"), 2, "--provenance requires --trust-root"),
        (("--trust-root", "root.json"), 2, "require --provenance"),
        (("--source-tag", "v1.14.0"), 2, "require --provenance"),
        ((*TRUSTED, "--sha256", "cd" * 32), 23, f"is about {SHA256}, but --sha256 is {'cd' * 32}"),
        ((*TRUSTED, "--sha256", "cd"), 2, "must be 64 hexadecimal digits"),
        ((*TRUSTED, "--source-repository", "github.com/me/fork"), 23, "and https://github.com/me/fork is expected"),
        ((*TRUSTED, "--builder", "https://github.com/me/b.yml"), 23, "and https://github.com/me/b.yml@refs/tags/vX.Y.Z is"),
        (("--provenance", "missing", "--trust-root", "root.json"), 2, "missing: No such file or directory"),
        (("--provenance", "bundle.jsonl", "--trust-root", "missing"), 2, "missing: No such file or directory"),
        (("--provenance", "pipe", "--trust-root", "root.json"), 2, "pipe: not a regular file"),
        (("--provenance", "/dev/zero", "--trust-root", "root.json"), 2, "/dev/zero: not a regular file"),
        (("--provenance", "large", "--trust-root", "root.json"), 25, "large: larger than 1,048,576 bytes"),
        (("--provenance", "bundle.jsonl", "--trust-root", "large"), 25, "large: larger than 1,048,576 bytes"),
        (("--provenance", "crds.tar.gz", "--trust-root", "root.json"), 23, "neither a DSSE envelope"),
        (("--provenance", "bundle.jsonl", "--trust-root", "crds.tar.gz"), 2, "neither PEM certificates nor"),
        (("--provenance", "bundle.jsonl", "--trust-root", "envelope.jsonl"), 2, "not a Sigstore trusted_root.json"),
    ],
)  # fmt: skip
def test_invalid_options_are_named(run: Any, tmp_path: Path, arguments: tuple[str, ...], code: int, text: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b" " * (MAX_BYTES + 1))
    shown = run("verify", "crds.tar.gz", *arguments, code=code)
    assert text in shown.stderr
    assert shown.stdout == ""


def test_without_the_library_the_message_says_how_to_get_it(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fleethook.engines.crds.provenance.sigstore_logs", raising=False)
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    assert "install fleethook[provenance]" in run("verify", "crds.tar.gz", *TRUSTED, code=2).stderr
    shown = run("verify", "crds.tar.gz", "--provenance", "bundle.jsonl", "--trust-root", "root.pem").stdout
    assert "not verified  transparency log: the trust root has certificates only" in shown
