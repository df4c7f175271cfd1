"""Errors of credential files name the place, never a value."""

from pathlib import Path

import pytest

from fleethook.engines.dispatch.credentials.files import CredentialFileError, Files
from fleethook.engines.dispatch.credentials.kubeconfig_users import read_users
from tests.engines.dispatch.credentials.builders import SECRET


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"users: [{SECRET}", "kubeconfig:2: is not valid YAML"),
        (f"users:\n- token: !{SECRET} x", "kubeconfig: users[0] has no name"),
        (f"{SECRET}", "kubeconfig must hold one YAML object"),
        ("", "kubeconfig must hold one YAML object"),
        ("a: b\n---\nc: d", "kubeconfig must hold one YAML object"),
        ("kind: Secret", "kubeconfig must be of kind Config in v1"),
        (f"users: {SECRET}", "kubeconfig: users must be a list of objects"),
        ("\x00", "kubeconfig:1: is not valid YAML"),
    ],
)
def test_errors_of_invalid_kubeconfigs_show_no_content(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(CredentialFileError) as raised:
        read_users(path, Files())
    assert str(raised.value).endswith(reason)
    assert SECRET not in str(raised.value)
