"""Credentials follow their files, and logical clusters never get the default credential."""

from pathlib import Path

import pytest

from fleethook.engines.dispatch.credentials.reloader import Credentials
from tests.engines.dispatch.credentials.builders import (
    SECRET,
    admission,
    compile_hook,
    configure_both,
    kubeconfig,
    read_token,
    user,
)

URLS = {
    "https://h.example.org/w": "host",
    "https://h.example.org:443/w": "host",
    "https://H.Example.org/": "host",
    "https://user@h.example.org/": "host",
    "https://evil.corp:443": "domain",
    "https://h.example.org:444": "any",
    "https://h.example.org@evil.org/": "any",
    "https://h.example.org:443@evil.org": "any",
    "https://evil.org/h.example.org": "any",
    "https://evil.org?h.example.org": "any",
    "https://evil.org#@h.example.org": "any",
    "https://evil.org\\.h.example.org": "",
    "https://h.example.org.": "any",
    "https://h.example.org%2f.evil.org/": "any",
    "https://corp": "any",
    "https://*/": "any",
    "https://[::1]:443/": "any",
    "not a url": "",
    "https://[::1": "",
    "https://": "",
}


@pytest.mark.parametrize("cluster", ["ws1", ""])
def test_logical_clusters_never_get_the_default_credential(tmp_path: Path, cluster: str) -> None:
    users = (user("*", token="any"), user("h.example.org", token="host"), user("*.corp", token="domain"))
    credentials = Credentials(configure_both(tmp_path, kubeconfig(tmp_path, *users)))
    found = {url: read_token(credentials.find(compile_hook(url, cluster=cluster))) for url in URLS}
    assert found == {url: "" if cluster and token == "any" else token for url, token in URLS.items()}


def test_changed_files_are_reloaded_and_invalid_ones_are_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = kubeconfig(tmp_path, user("h.example.org", tokenFile="token"))
    token = tmp_path / "token"
    token.write_text("one")
    credentials = Credentials(configure_both(tmp_path, file))
    assert (credentials.reload(), read_token(credentials.find(compile_hook()))) == (False, "one")
    token.write_text("two")
    assert (credentials.reload(), read_token(credentials.find(compile_hook()))) == (True, "two")
    token.write_text(f"{SECRET}\n{SECRET}")
    for _ in range(2):
        assert (credentials.reload(), read_token(credentials.find(compile_hook()))) == (False, "two")
    assert credentials.problem.endswith(
        "user 'h.example.org': the token contains characters that are invalid in an HTTP header"
    )
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    token.write_text("two")
    assert (credentials.reload(), credentials.problem) == (True, "")
    kubeconfig(tmp_path, user("h.example.org", token="three"))
    assert (credentials.reload(), read_token(credentials.find(compile_hook()))) == (True, "three")
    admission(tmp_path)
    assert (credentials.reload(), credentials.find(compile_hook())) == (True, None)
    assert SECRET not in caplog.text
