"""Both forms of a trust root."""

import json
from pathlib import Path

import pytest

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance import trust_root
from fleethook.engines.crds.provenance.trust_root import read_trust_root
from tests.engines.crds.provenance.signing import Sigstore

SIGSTORE = Sigstore()


def test_pem_has_authorities_and_no_logs(tmp_path: Path) -> None:
    found = read_trust_root(tmp_path / "fulcio.pem", SIGSTORE.pem)
    assert len(found.authorities) == 2
    assert found.logs is None


def test_a_trusted_root_has_both(tmp_path: Path) -> None:
    path = tmp_path / "trusted_root.json"
    path.write_text("\n " + json.dumps(SIGSTORE.trusted_root()))
    found = read_trust_root(path, path.read_bytes())
    assert {one.subject for one in found.authorities} == {
        one.subject for one in read_trust_root(path, SIGSTORE.pem).authorities
    }
    assert found.logs is not None


@pytest.mark.parametrize("data", [b"", b"text", b"[]", SIGSTORE.pem.replace(b"MII", b"AAA")])
def test_any_other_file_is_a_usage_error_that_names_it(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "root"
    with pytest.raises(CRDsError, match=f"--trust-root {path}: neither PEM certificates nor a Sigstore") as raised:
        read_trust_root(path, data)
    assert raised.value.exit is Exit.USAGE


def test_without_the_library_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named 'sigstore' ({name})", name="sigstore")

    monkeypatch.setattr(trust_root.importlib, "import_module", find_nothing)
    with pytest.raises(CRDsError, match=r"install fleethook\[provenance\], or give the certificates") as raised:
        read_trust_root(tmp_path / "root.json", b"{}")
    assert raised.value.exit is Exit.USAGE
