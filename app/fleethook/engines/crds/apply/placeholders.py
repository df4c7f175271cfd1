"""The placeholders of patches, and their values for an instance.

Upstream: ``patchCrds`` in operator/pkg/tasks/init/karmadaresource.go (v1.17.1).
"""

import base64
import re
from collections.abc import Mapping
from typing import Final

from cryptography import x509

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.naming import webhook_name
from fleethook.model.formats.names import is_dns1123_label

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
