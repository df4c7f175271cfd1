"""Each phase has the kubeconfig of its admission plugin."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fleethook.engines.dispatch.credentials.files import CredentialFileError
from fleethook.engines.dispatch.credentials.reloader import Credentials
from tests.engines.dispatch.credentials.builders import (
    admission,
    compile_hook,
    kubeconfig,
    read_token,
    user,
    webhook_plugin,
)


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
