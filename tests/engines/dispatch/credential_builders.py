"""AdmissionConfigurations, kubeconfigs and certificates for tests."""

import base64
from pathlib import Path
from typing import Any

import yaml

from fleethook.engines.dispatch.hooks.hooks import Hook, Phase, compile_hooks
from fleethook.outbound.endpoint import Credential
from tests.e2e.pki import Authority
from tests.engines.dispatch.builders import configuration, webhook

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


def configure_both(directory: Path, file: Path) -> Path:
    names = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    return admission(directory, *(webhook_plugin(name, file) for name in names))


def compile_hook(url: str = "https://h.example.org/w", *, phase: Phase = "validating", cluster: str = "ws1") -> Hook:
    (hook,) = compile_hooks(phase, cluster, configuration(cluster, phase, webhook(url=url)))
    return hook


def read_token(found: Credential | None) -> str:
    return found.authorization.removeprefix("Bearer ") if found else ""


def authority(directory: Path) -> Authority:
    return Authority(directory, "clients")


def encode_file(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
