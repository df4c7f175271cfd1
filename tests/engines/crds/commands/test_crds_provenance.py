"""``--provenance`` of ``fleethook crds``: output and exit codes."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.provenance.attestation import MAX_BYTES
from tests.cli.commands import Result, invoke
from tests.engines.crds.origin import Origin, serving, tarball
from tests.engines.crds.provenance.signing import REF, SOURCE, Sigstore, statement
from tests.engines.crds.tarballs import build, small

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
    assert f"is {SHA256}, and {'ab' * 32} is expected" in run("verify", "crds.tar.gz", *other, code=23).stderr
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
