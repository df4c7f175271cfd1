"""Credentials for webhooks: users of kubeconfigs by host, their errors, and changed files."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.dispatch.webhook_credentials import (
    CredentialFileError,
    Credentials,
    Files,
    Users,
    read_users,
)
from fleethook.outbound.endpoint import Credential, CredentialError
from tests.e2e.pki import Pair
from tests.engines.dispatch.credential_builders import (
    SECRET,
    admission,
    authority,
    compile_hook,
    configure_both,
    encode_file,
    kubeconfig,
    read_token,
    user,
    webhook_plugin,
)


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


def users_named(*names: str) -> Users:
    """Return users whose tokens are their names."""
    return Users({name: Credential(token=name.encode()) for name in names})


@pytest.mark.parametrize(
    ("names", "host", "port", "found"),
    [
        # k8s.io/apiserver v0.36: pkg/util/webhook/authentication_test.go and the order of authentication.go.
        (["one", "two"], "one", 80, ""),
        (["one:80", "one"], "one", 80, "one:80"),
        (["one:443", "one"], "one", 443, "one:443"),
        (["one"], "one", 443, "one"),
        (["*.two.three:8080"], "one.two.three", 8080, "*.two.three:8080"),
        (["*.two.three"], "one.two.three", 8080, ""),
        (["*.two.three"], "one.two.three", 443, "*.two.three"),
        (["*.three", "*.two.three"], "one.two.three", 443, "*.two.three"),
        (["one.two.three", "*.two.three:443"], "one.two.three", 443, "*.two.three:443"),
        (["two.three", "*.one.two.three"], "one.two.three", 443, ""),
        (["one.two.three"], "ONE.two.three", 443, "one.two.three"),
        (["one.two.three"], "one.two.three.evil.org", 443, ""),
        (["one.two.three"], "xone.two.three", 443, ""),
        (["*.two.three"], "two.three", 443, ""),
        (["hook.ns.svc:443"], "hook.ns.svc", 443, "hook.ns.svc:443"),
        (["hook.ns.svc"], "hook.ns.svc", 443, "hook.ns.svc"),
        (["hook.ns.svc"], "hook.ns.svc", 8443, ""),
        (["*.svc"], "hook.ns.svc", 443, "*.svc"),
        (["10.0.0.1"], "10.0.0.1", 443, "10.0.0.1"),
        (["[::1]:8443"], "[::1]", 8443, "[::1]:8443"),
    ],
)
def test_hosts_get_the_same_user_as_in_an_apiserver(names: list[str], host: str, port: int, found: str) -> None:
    assert read_token(users_named(*names).find(host, port, default=True)) == found


def test_other_hosts_get_the_star_user_then_the_current_context(tmp_path: Path) -> None:
    context = {"current-context": "c", "contexts": [{"name": "c", "context": {"user": "me"}}]}
    star, me = user("*", token="star"), user("me", token="me")
    for users, members, found in (
        ((star, me), context, "star"), ((me,), context, "me"), ((me,), {}, ""),
        ((me,), {**context, "current-context": "d"}, ""), ((), context, ""),
    ):  # fmt: skip
        made = read_users(kubeconfig(tmp_path, *users, **members), Files())
        assert read_token(made.find("any.example.org", 443, default=True)) == found
        assert made.find("any.example.org", 443, default=False) is None
        assert made.find("*", 443, default=False) is None


def test_certificates_and_tokens_may_be_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    pair = authority(tmp_path).issue("me")
    (tmp_path / "token").write_text(f"{SECRET}\n")
    inline = user(
        "data.org", client_certificate_data=encode_file(pair.certificate), client_key_data=encode_file(pair.key)
    )
    files = user("files.org", client_certificate="me.crt", client_key=str(pair.key))
    tokens = user("tokens.org", tokenFile="token", token="old")
    fallback = user("fallback.org", tokenFile="gone", token="old")
    basic = user("basic.org", username="me", password=SECRET)
    found = read_users(kubeconfig(tmp_path, inline, files, tokens, fallback, basic), Files()).by_host
    assert found["data.org"] == found["files.org"] != found["tokens.org"]
    assert found["data.org"].has_certificate
    assert found["tokens.org"].authorization == f"Bearer {SECRET}"
    assert found["fallback.org"].authorization == "Bearer old"
    assert found["basic.org"].authorization == f"Basic {base64.b64encode(f'me:{SECRET}'.encode()).decode()}"
    assert SECRET not in repr(found)


def broken_users(pair: Pair, other: Pair) -> dict[str, tuple[dict[str, Any], str]]:
    """Return invalid users, each with the end of its error."""
    pem = {"client_certificate_data": encode_file(pair.certificate)}
    return {
        "exec": (user("h", exec={"command": "x"}), "user 'h': exec is not supported: use a client certificate, "),
        "provider": (user("h", auth_provider={"name": "x"}), "user 'h': auth-provider is not supported: "),
        "impersonation": (user("h", **{"as": "admin"}), "user 'h': as is not supported: "),
        "two ways": (user("h", token=SECRET, username="u"), "username/password or bearer token may be set, but not both"),
        "no key": (user("h", **pem), "user 'h': client certificate or key is missing: set both or none"),
        "another key": (user("h", **pem, client_key_data=encode_file(other.key)), "cannot be used: key values mismatch; "),
        "no base64": (user("h", client_certificate_data=f"%{SECRET}"), "client-certificate-data is not base64"),
        "no pem": (user("h", client_certificate_data="aGk=", client_key_data="aGk="), "the client certificate and its key"),
        "no file": (user("h", client_certificate="gone.crt"), "gone.crt cannot be read: no such file or directory"),
        "no token file": (user("h", tokenFile="gone"), "gone cannot be read: no such file or directory"),
        "header": (user("h", token=f"{SECRET}\r\nX: y"), "the token contains characters that are invalid in an HTTP header"),
        "umlaut": (user("h", token=f"{SECRET}ü"), "the token contains characters that are invalid in an HTTP header"),
        "number": (user("h", token=5), "user 'h': token must be a string"),
        "twice": (user("H", token="a"), "user 'h' is a duplicate"),
        "no name": ({"user": {"token": SECRET}}, "users[1] has no name"),
    }  # fmt: skip


def test_errors_of_invalid_users_show_no_secret(tmp_path: Path) -> None:
    made = authority(tmp_path)
    for case, (broken, text) in broken_users(made.issue("a"), made.issue("b")).items():
        first = user("h" if case == "twice" else "first", token=SECRET)
        with pytest.raises(CredentialFileError) as raised:
            read_users(kubeconfig(tmp_path, first, broken), Files())
        assert text in str(raised.value), case
        assert str(raised.value).startswith(str(tmp_path))
        assert SECRET not in str(raised.value)
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None or raised.value.__suppress_context__, "a cause could be logged"


def test_encrypted_keys_are_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    pair = authority(tmp_path).issue("me")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    with pytest.raises(CredentialError, match="the key must not be encrypted"):
        Credential(certificate_pem=pair.certificate.read_bytes(), key_pem=encrypted)


def test_each_phase_uses_the_kubeconfig_of_its_plugin(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path, user("h.example.org", token="first"), name="first")
    nested = webhook_plugin("-", kubeconfig(tmp_path, user("h.example.org", token="second"), name="second"))
    (tmp_path / "validating.json").write_text(json.dumps(nested["configuration"]))
    path = admission(
        tmp_path,
        {"name": "PodSecurity", "configuration": {"what": "ever"}},
        webhook_plugin("apis.kcp.io/MutatingWebhook", first),
        {"name": "ValidatingAdmissionWebhook", "path": "validating.json"},
    )
    credentials = Credentials(path)
    assert read_token(credentials.find(compile_hook(phase="mutating"))) == "first"
    assert read_token(credentials.find(compile_hook(phase="validating"))) == "second"
    only = Credentials(admission(tmp_path, webhook_plugin("MutatingAdmissionWebhook", first)))
    assert only.find(compile_hook(phase="validating")) is None


BROKEN: dict[str, tuple[Callable[[Path, Path], Path], str]] = {
    "kind": (lambda d, _: admission(d, kind="Configuration"), "must be of kind AdmissionConfiguration in"),
    "version": (lambda d, _: admission(d, apiVersion="v1"), "must be of kind AdmissionConfiguration in"),
    "member": (lambda d, _: admission(d, plugin=[]), "has an unknown field 'plugin'"),
    "member of a plugin": (lambda d, _: admission(d, {"name": "x", "config": {}}), "has an unknown field 'config'"),
    "nested kind": (
        lambda d, k: admission(d, webhook_plugin("ValidatingAdmissionWebhook", k, kind="x")),
        "plugin ValidatingAdmissionWebhook must be of kind WebhookAdmissionConfiguration in",
    ),
    "nested member": (
        lambda d, k: admission(d, webhook_plugin("MutatingAdmissionWebhook", k, kubeconfigFile="x")),
        "has an unknown field 'kubeconfigFile'",
    ),
    "manifests": (
        lambda d, k: admission(d, webhook_plugin("MutatingAdmissionWebhook", k, staticManifestsDir="/x")),
        "staticManifestsDir is not supported: remove it, and use --manifests",
    ),
    "relative": (
        lambda d, _: admission(d, webhook_plugin("MutatingAdmissionWebhook", "kubeconfig")),
        "kubeConfigFile must be an absolute file path",
    ),
    "two": (
        lambda d, k: admission(
            d, webhook_plugin("MutatingAdmissionWebhook", k), webhook_plugin("apis.kcp.io/MutatingWebhook", "/other")
        ),
        "two plugins name different kubeConfigFiles for mutating webhooks: remove one of them",
    ),
    "no file": (
        lambda d, _: admission(d, webhook_plugin("MutatingAdmissionWebhook", d / "gone")),
        "gone cannot be read: no such file or directory",
    ),
    "no plugin file": (
        lambda d, _: admission(d, {"name": "MutatingAdmissionWebhook", "path": "gone.yaml"}),
        "gone.yaml cannot be read: no such file or directory",
    ),
}


@pytest.mark.parametrize(("write", "text"), BROKEN.values(), ids=BROKEN)
def test_invalid_configurations_are_refused_as_by_an_apiserver(
    tmp_path: Path, write: Callable[[Path, Path], Path], text: str
) -> None:
    with pytest.raises(CredentialFileError, match=text.replace("(", "\\(")):
        Credentials(write(tmp_path, kubeconfig(tmp_path)))


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
