"""Which credential is for which host, and how the files that say so are read."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.dispatch.credentials.files import CredentialFileError, Files
from app.dispatch.credentials.kubeconfig_users import Users, read_users
from app.dispatch.credentials.reloader import Credentials
from app.dispatch.hooks import Hook, Phase, compile_hooks
from app.outbound.credential import Credential, CredentialError
from tests.dispatch.builders import configuration, webhook
from tests.e2e.pki import Authority, Pair

API_VERSION = "apiserver.config.k8s.io/v1"
SECRET = "s3cr3t-t0k3n"


def user(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "user": {member.replace("_", "-"): value for member, value in members.items()}}


def kubeconfig(directory: Path, *users: dict[str, Any], name: str = "kubeconfig", **members: Any) -> Path:
    path = directory / name
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "users": list(users), **members}))
    return path


def webhook_plugin(name: str, file: Path | str, **members: Any) -> dict[str, Any]:
    nested = {"apiVersion": API_VERSION, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(file)}
    return {"name": name, "configuration": {**nested, **members}}


def admission(directory: Path, *plugins: dict[str, Any], **members: Any) -> Path:
    path = directory / "admission.yaml"
    text = {"apiVersion": API_VERSION, "kind": "AdmissionConfiguration", "plugins": list(plugins), **members}
    path.write_text(yaml.safe_dump(text))
    return path


def both(directory: Path, file: Path) -> Path:
    names = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    return admission(directory, *(webhook_plugin(name, file) for name in names))


def compiled(url: str = "https://h.example.org/w", *, phase: Phase = "validating", cluster: str = "ws1") -> Hook:
    (hook,) = compile_hooks(phase, cluster, configuration(cluster, phase, webhook(url=url)))
    return hook


def token_of(found: Credential | None) -> str:
    return found.authorization.removeprefix("Bearer ") if found else ""


def named(*names: str) -> Users:
    """Users whose tokens are their names."""
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
def test_a_host_has_the_user_that_an_apiserver_takes(names: list[str], host: str, port: int, found: str) -> None:
    assert token_of(named(*names).find(host, port, default=True)) == found


def test_any_host_has_the_star_and_then_the_user_of_the_current_context(tmp_path: Path) -> None:
    context = {"current-context": "c", "contexts": [{"name": "c", "context": {"user": "me"}}]}
    star, me = user("*", token="star"), user("me", token="me")
    for users, members, found in (
        ((star, me), context, "star"), ((me,), context, "me"), ((me,), {}, ""),
        ((me,), {**context, "current-context": "d"}, ""), ((), context, ""),
    ):  # fmt: skip
        made = read_users(kubeconfig(tmp_path, *users, **members), Files())
        assert token_of(made.find("any.example.org", 443, default=True)) == found
        assert made.find("any.example.org", 443, default=False) is None
        assert made.find("*", 443, default=False) is None


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
def test_a_tenant_has_no_credential_that_is_for_any_host(tmp_path: Path, cluster: str) -> None:
    users = (user("*", token="any"), user("h.example.org", token="host"), user("*.corp", token="domain"))
    credentials = Credentials(both(tmp_path, kubeconfig(tmp_path, *users)))
    found = {url: token_of(credentials.find(compiled(url, cluster=cluster))) for url in URLS}
    assert found == {url: "" if cluster and token == "any" else token for url, token in URLS.items()}


def test_each_phase_has_the_kubeconfig_of_its_plugin(tmp_path: Path) -> None:
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
    assert token_of(credentials.find(compiled(phase="mutating"))) == "first"
    assert token_of(credentials.find(compiled(phase="validating"))) == "second"
    only = Credentials(admission(tmp_path, webhook_plugin("MutatingAdmissionWebhook", first)))
    assert only.find(compiled(phase="validating")) is None


def authority(directory: Path) -> Authority:
    return Authority(directory, "clients")


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_certificates_and_tokens_may_be_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    pair = authority(tmp_path).issue("me")
    (tmp_path / "token").write_text(f"{SECRET}\n")
    inline = user("data.org", client_certificate_data=data(pair.certificate), client_key_data=data(pair.key))
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
    """A user, and the end of the error about it."""
    pem = {"client_certificate_data": data(pair.certificate)}
    return {
        "exec": (user("h", exec={"command": "x"}), "user 'h': exec is not supported: give a client certificate, "),
        "provider": (user("h", auth_provider={"name": "x"}), "user 'h': auth-provider is not supported: "),
        "impersonation": (user("h", **{"as": "admin"}), "user 'h': as is not supported: "),
        "two ways": (user("h", token=SECRET, username="u"), "username/password or bearer token may be set, but not both"),
        "no key": (user("h", **pem), "user 'h': a client certificate and its key belong together, and one of them is missing"),
        "another key": (user("h", **pem, client_key_data=data(other.key)), "cannot be used: key values mismatch; "),
        "no base64": (user("h", client_certificate_data=f"%{SECRET}"), "client-certificate-data is not base64"),
        "no pem": (user("h", client_certificate_data="aGk=", client_key_data="aGk="), "the client certificate and its key"),
        "no file": (user("h", client_certificate="gone.crt"), "gone.crt cannot be read: no such file or directory"),
        "no token file": (user("h", tokenFile="gone"), "gone cannot be read: no such file or directory"),
        "header": (user("h", token=f"{SECRET}\r\nX: y"), "the token has characters that a header cannot carry"),
        "umlaut": (user("h", token=f"{SECRET}ü"), "the token has characters that a header cannot carry"),
        "number": (user("h", token=5), "user 'h': token must be a string"),
        "twice": (user("H", token="a"), "user 'h' is there twice"),
        "no name": ({"user": {"token": SECRET}}, "users[1] has no name"),
    }  # fmt: skip


def test_what_cannot_be_used_is_an_error_that_shows_no_secret(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"users: [{SECRET}", "kubeconfig:2: is not valid YAML"),
        (f"users:\n- token: !{SECRET} x", "kubeconfig:2: is not valid YAML"),
        (f"{SECRET}", "kubeconfig must hold one YAML object"),
        ("", "kubeconfig must hold one YAML object"),
        ("a: b\n---\nc: d", "kubeconfig must hold one YAML object"),
        ("kind: Secret", "kubeconfig must be of kind Config in v1"),
        (f"users: {SECRET}", "kubeconfig: users must be a list of objects"),
        ("\x00", "kubeconfig:1: is not valid YAML"),
    ],
)
def test_a_kubeconfig_that_is_none_is_an_error_that_shows_nothing_of_it(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(CredentialFileError) as raised:
        read_users(path, Files())
    assert str(raised.value).endswith(reason)
    assert SECRET not in str(raised.value)


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
        "staticManifestsDir is not supported: remove it, and give --manifests",
    ),
    "relative": (
        lambda d, _: admission(d, webhook_plugin("MutatingAdmissionWebhook", "kubeconfig")),
        "kubeConfigFile must be an absolute file path",
    ),
    "two": (
        lambda d, k: admission(
            d, webhook_plugin("MutatingAdmissionWebhook", k), webhook_plugin("apis.kcp.io/MutatingWebhook", "/other")
        ),
        "two plugins name different kubeConfigFiles for mutating webhooks: leave one of them",
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
def test_a_configuration_is_read_as_strictly_as_by_an_apiserver(
    tmp_path: Path, write: Callable[[Path, Path], Path], text: str
) -> None:
    with pytest.raises(CredentialFileError, match=text.replace("(", "\\(")):
        Credentials(write(tmp_path, kubeconfig(tmp_path)))


def test_files_that_change_are_read_again_and_broken_ones_keep_what_is_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = kubeconfig(tmp_path, user("h.example.org", tokenFile="token"))
    token = tmp_path / "token"
    token.write_text("one")
    credentials = Credentials(both(tmp_path, file))
    assert (credentials.reload(), token_of(credentials.find(compiled()))) == (False, "one")
    token.write_text("two")
    assert (credentials.reload(), token_of(credentials.find(compiled()))) == (True, "two")
    token.write_text(f"{SECRET}\n{SECRET}")
    for _ in range(2):
        assert (credentials.reload(), token_of(credentials.find(compiled()))) == (False, "two")
    assert credentials.problem.endswith("user 'h.example.org': the token has characters that a header cannot carry")
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    token.write_text("two")
    assert (credentials.reload(), credentials.problem) == (True, "")
    kubeconfig(tmp_path, user("h.example.org", token="three"))
    assert (credentials.reload(), token_of(credentials.find(compiled()))) == (True, "three")
    admission(tmp_path)
    assert (credentials.reload(), credentials.find(compiled())) == (True, None)
    assert SECRET not in caplog.text


def test_a_key_with_a_password_is_refused_without_asking_for_it(tmp_path: Path) -> None:
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
