"""Finds the kubeconfig for the webhooks of each phase (k8s.io/apiserver: pkg/admission/config.go).

The file is that of kube-apiserver's flag ``--admission-control-config-file``. Other admission plugins in it are
ignored, so that you can use an apiserver's own file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fleethook.engines.dispatch.credentials.files import (
    CredentialFileError,
    Files,
    check_members,
    check_type,
    read_objects,
    read_text,
)
from fleethook.engines.dispatch.hooks.hooks import Phase
from fleethook.model.json import JSON, as_object

API_VERSION: Final = "apiserver.config.k8s.io/v1"
_PLUGINS: Final[Mapping[str, Phase]] = {
    "MutatingAdmissionWebhook": "mutating",
    "ValidatingAdmissionWebhook": "validating",
    "apis.kcp.io/MutatingWebhook": "mutating",
    "apis.kcp.io/ValidatingWebhook": "validating",
}


def find_kubeconfigs(path: Path, files: Files) -> dict[Phase, Path]:
    """Return the ``kubeConfigFile`` of each phase in an AdmissionConfiguration.

    Args:
        path: The path of the AdmissionConfiguration.
        files: Reads the AdmissionConfiguration, and the files that it names.

    Raises:
        CredentialFileError: A file is invalid.
    """
    configuration = files.read_object(path)
    check_type(configuration, api_version=API_VERSION, kind="AdmissionConfiguration", where=str(path))
    check_members(configuration, ("apiVersion", "kind", "plugins"), where=str(path))
    found: dict[Phase, Path] = {}
    for plugin in read_objects(configuration, "plugins", where=str(path)):
        check_members(plugin, ("name", "path", "configuration"), where=f"{path}: plugins")
        name = read_text(plugin, "name", where=f"{path}: plugins")
        phase = _PLUGINS.get(name)
        if phase is None:
            continue
        kubeconfig = _find_kubeconfig(plugin, path, files, where=f"{path}: plugin {name}")
        if kubeconfig is not None and found.setdefault(phase, kubeconfig) != kubeconfig:
            raise CredentialFileError(
                f"{path}: two plugins name different kubeConfigFiles for {phase} webhooks: remove one of them"
            )
    return found


def _find_kubeconfig(plugin: Mapping[str, JSON], path: Path, files: Files, *, where: str) -> Path | None:
    configuration = plugin.get("configuration")
    if configuration is None:
        elsewhere = read_text(plugin, "path", where=where)
        if not elsewhere:
            return None
        where = str(path.parent / elsewhere)
        configuration = files.read_object(path.parent / elsewhere)
    webhooks = as_object(configuration)
    check_type(webhooks, api_version=API_VERSION, kind="WebhookAdmissionConfiguration", where=where)
    check_members(webhooks, ("apiVersion", "kind", "kubeConfigFile", "staticManifestsDir"), where=where)
    if webhooks.get("staticManifestsDir"):
        # Ignoring the webhooks of these manifests would admit objects unchecked.
        raise CredentialFileError(f"{where}: staticManifestsDir is not supported: remove it, and use --manifests")
    kubeconfig = read_text(webhooks, "kubeConfigFile", where=where)
    if not kubeconfig:
        return None
    if not Path(kubeconfig).is_absolute():
        raise CredentialFileError(f"{where}: kubeConfigFile must be an absolute file path")
    return Path(kubeconfig)
