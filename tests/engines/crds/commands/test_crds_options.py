"""The sources that the arguments of ``fleethook crds`` select."""

from pathlib import Path

import pytest

from fleethook.engines.crds.commands.crds_options import (
    DownloadOptions,
    exit_on_error,
    parse_age,
    parse_size,
    select_sources,
)
from fleethook.engines.crds.instance.source_and_secrets import SelectedSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model.crd_tarball import Policy
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


URL = "https://h/crds.tar.gz"
DEMO = {
    "apiVersion": "operator.karmada.io/v1alpha1",
    "kind": "Karmada",
    "metadata": {"name": "demo", "namespace": "n"},
    "spec": {"crdTarball": {"httpSource": {"url": "https://instance/crds.tar.gz"}}},
}


def select(url: str | None, karmada: list[Path] | None, version: str | None) -> list[SelectedSource]:
    return list(select_sources(url, karmada, DownloadOptions(version)))


def test_a_url_a_release_or_each_instance_is_a_source(write_yaml: WriteYAML) -> None:
    (chosen,) = select(URL, None, None)
    assert (chosen.source.url, chosen.policy) == (URL, Policy.IF_NOT_PRESENT)
    (chosen,) = select(None, None, "v1.17.0")
    assert "v1.17.0" in chosen.source.url
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}
    path = Path(write_yaml("k.yaml", DEMO, other, DEMO))
    assert [one.source.url for one in select(None, [path], None)] == ["https://instance/crds.tar.gz"] * 2
    assert select(URL, None, "v1.17.0")[0].source.url == URL


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("90s", 90), ("1W", 604_800)])
def test_ages_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize(("text", "size"), [("200MiB", 200 * 2**20), ("1kb", 1000), ("7", 7), ("3 GB", 3 * 10**9)])
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1d", "1.5h", "9 fortnights"])
def test_a_text_that_is_neither_age_nor_size_is_refused(text: str) -> None:
    for read in (parse_age, parse_size):
        with pytest.raises(ValueError, match="is not"):
            read(text)
