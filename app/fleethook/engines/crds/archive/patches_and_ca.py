"""The patches of a tarball: filled in for an instance, and merged into their CRDs.

Upstream: ``patchCrds`` in operator/pkg/tasks/init/karmadaresource.go (v1.17.1).
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cryptography import x509

from fleethook.engines.crds.archive.names_content_limits import (
    LIMITS,
    ArchiveLimits,
    Tree,
    YAMLBudget,
    name_patched_crd,
    read_object,
)
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model.formats.names_and_labels import is_dns1123_label
from fleethook.model.json import JSONObject, as_object
from fleethook.model.merge_keys import MergeSchema
from fleethook.patch.pointer_and_limits import StrategicMergeError
from fleethook.patch.strategic_merge_patch import strategic_merge

CA_BUNDLE: Final = "{{caBundle}}"
NAME: Final = "{{name}}"
NAMESPACE: Final = "{{namespace}}"
_MEANINGS: Final = {
    CA_BUNDLE: "the certificates of the instance's CA",
    NAME: "the name of the instance's webhook",
    NAMESPACE: "the namespace of the instance",
}
_FLAGS: Final = {CA_BUNDLE: "--ca-file", NAME: "--name", NAMESPACE: "--namespace"}
_PLACEHOLDER: Final = re.compile(r"\{\{[^{}]*\}\}")


def build_values(*, name: str = "", namespace: str = "", ca_pem: bytes | None = None) -> dict[str, str]:
    """Return values by placeholder; a placeholder without an argument is left out.

    Args:
        name: Name of the instance.
        namespace: Namespace of the instance.
        ca_pem: Certificates of the CA that issued the webhook's certificate, inserted unchanged.

    Raises:
        CRDsError: USAGE for names that are not DNS labels, which could break out of the YAML, and for data that is not
            PEM certificates.
    """
    values: dict[str, str] = {}
    if name:
        values[NAME] = _check_label(webhook_name(name), f"the webhook of {name!r} would be called")
    if namespace:
        values[NAMESPACE] = _check_label(namespace, "the namespace is")
    if ca_pem is not None:
        values[CA_BUNDLE] = base64.b64encode(_check_certificates(ca_pem)).decode()
    return values


def webhook_name(instance: str) -> str:
    """Return the name of the Service of an instance's webhook (upstream: operator/pkg/util/naming.go, v1.16.0)."""
    return f"{instance}-webhook" if "karmada" in instance else f"{instance}-karmada-webhook"


def substitute(path: str, text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of a patch by their values; unused values are ignored.

    Args:
        path: Path of the patch, for errors.
        text: The patch.
        values: Values by placeholder, braces included.

    Raises:
        CRDsError: ARCHIVE for an unknown placeholder, which upstream sends to the API server; USAGE for a placeholder
            without a value.
    """

    def look_up(found: re.Match[str]) -> str:
        placeholder = found[0]
        if placeholder in values:
            return values[placeholder]
        if placeholder in _MEANINGS:
            text = f"{path} needs {_MEANINGS[placeholder]} for {placeholder}: give {_FLAGS[placeholder]}"
            raise CRDsError(Exit.USAGE, text)
        raise CRDsError(Exit.ARCHIVE, f"{path} has the placeholder {placeholder}: known are {', '.join(_MEANINGS)}")

    return _PLACEHOLDER.sub(look_up, text)


def _check_label(text: str, what: str) -> str:
    if not is_dns1123_label(text):
        raise CRDsError(Exit.USAGE, f"{what} {text!r}, which is not a DNS label")
    return text


def _check_certificates(pem: bytes) -> bytes:
    if not pem.strip():
        raise CRDsError(Exit.USAGE, "unexpected empty ca cert data")  # upstream's words
    if b"PRIVATE KEY-----" in pem:
        raise CRDsError(
            Exit.USAGE, "the file of the CA's certificates also has a private key, which the CRDs would publish"
        )
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise CRDsError(Exit.USAGE, "the CA's certificates are not PEM") from None
    return pem


# The patchMergeKey tags of apiextensions/v1 and meta/v1. The one of x-kubernetes-validations is left out: it is below
# `versions`, a list that a patch replaces.
_METADATA: Final = {"finalizers": MergeSchema(primitive=True), "ownerReferences": MergeSchema(merge_key="uid")}
_HOST: Final = re.compile(r"https://([^/:?#]*)")
_CRD: Final = MergeSchema({"metadata": MergeSchema(_METADATA)})


class Patch(NamedTuple):
    """A strategic merge patch, ready to be sent."""

    path: str
    crd: str
    body: JSONObject


def build_patches(tree: Tree, values: Mapping[str, str], limits: ArchiveLimits = LIMITS) -> list[Patch]:
    """Return the patches of a tarball for an instance.

    Raises:
        CRDsError: ARCHIVE if a patch is not a YAML object, has an unknown placeholder or patches a CRD that the tarball
            does not have; LIMIT if the YAML is too large; USAGE if a value is missing.
    """
    budget = YAMLBudget(limits)
    return [_build_patch(tree, path, substitute(path, text, values), budget) for path, text in tree.patches.items()]


def render_crds(crds: Mapping[str, JSONObject], patches: Sequence[Patch]) -> dict[str, JSONObject]:
    """Return the CRDs with the patches merged in, by name and in order; the arguments stay unchanged.

    Raises:
        CRDsError: ARCHIVE if a patch cannot be merged.
    """
    return {name: render_one(name, crds, patches) for name in crds}


def render_one(name: str, crds: Mapping[str, JSONObject], patches: Sequence[Patch]) -> JSONObject:
    """Return one of the CRDs that `render_crds` returns; raises as that."""
    crd = crds[name]
    for patch in patches:
        if patch.crd == name:
            try:
                crd = strategic_merge(crd, patch.body, _CRD)
            except StrategicMergeError as error:
                raise CRDsError(Exit.ARCHIVE, f"{patch.path} does not fit {name}: {error}") from None
    return crd


def find_foreign_webhooks(patches: Sequence[Patch], values: Mapping[str, str]) -> dict[str, str]:
    """Return a warning by CRD for each patch with a fixed address that is not the one of the instance's webhook.

    Releases before 1.13 have no ``{{name}}`` and ``{{namespace}}``: conversion works for one instance only.
    """
    own_host = f"{values.get(NAME, '')}.{values.get(NAMESPACE, '')}.svc"
    return {
        patch.crd: f"{patch.path} converts {patch.crd} at {host}, but the instance's webhook is {own_host}: releases "
        "before 1.13 have this fixed address; use a later release, or an instance named karmada in karmada-system"
        for patch in patches
        if (host := _read_host(patch.body))
        and not f"{host}.".startswith(f"{own_host}.")
        and values.keys() >= {NAME, NAMESPACE}
    }


def _read_host(patch: JSONObject) -> str:
    conversion = as_object(as_object(patch.get("spec")).get("conversion"))
    url = as_object(as_object(conversion.get("webhook")).get("clientConfig")).get("url")
    host = _HOST.match(url) if isinstance(url, str) else None
    return "" if host is None else host[1]


def _build_patch(tree: Tree, path: str, text: str, budget: YAMLBudget) -> Patch:
    crd = name_patched_crd(path)
    if crd not in tree.crds:
        raise CRDsError(Exit.ARCHIVE, f"{path} patches {crd}, which the tarball does not have")
    return Patch(path, crd, _drop_name(read_object(path, text.encode(), budget)))


def _drop_name(body: JSONObject) -> JSONObject:
    """Drop ``metadata.name``: the file name selects the CRD, and the API server refuses a different name."""
    metadata = {name: value for name, value in as_object(body.get("metadata")).items() if name != "name"}
    rest = {name: value for name, value in body.items() if name != "metadata" or not isinstance(value, dict)}
    return {**rest, "metadata": metadata} if metadata else rest


# Values of the form that `build_values` returns.
_VALUES: Final[Mapping[str, str]] = {
    NAME: "trial-karmada-webhook",
    NAMESPACE: "karmada-system",
    CA_BUNDLE: base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode(),
}


def render_tree(tree: Tree) -> dict[str, JSONObject]:
    """Return the CRDs of a tree, patched for an imaginary instance.

    Raises:
        CRDsError: ARCHIVE if a patch is not YAML, has an unknown placeholder or cannot be merged.
    """
    return render_crds(tree.crds, build_patches(tree, _VALUES))
