"""What the placeholders of patches stand for: the instance that the CRDs are for (research 2.5)."""

import base64
import re
from collections.abc import Mapping
from typing import Final

from cryptography import x509

from app.crds.failures import CRDsError, Exit
from app.crds.instance.naming import webhook_name
from app.model.names import is_dns1123_label

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
    """Return what the placeholders stand for, those left out for which nothing is given.

    Args:
        name: The instance's.
        namespace: The instance's.
        ca_pem: Certificates by which the webhook is trusted, put in as they are.

    Raises:
        CRDsError: USAGE for what could end the text that it is put into, or what no webhook can be reached by.
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
    """Return the text of a patch with values in place of its placeholders; a value that none asks for is not used.

    Args:
        path: What errors call it.
        text: The patch.
        values: By placeholder, braces included.

    Raises:
        CRDsError: ARCHIVE for a placeholder that nobody knows, which upstream hands to the apiserver as it is; USAGE
            for one whose value is not given.
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
        raise CRDsError(Exit.USAGE, f"{what} {text!r}, which is no DNS label")
    return text


def _check_certificates(pem: bytes) -> bytes:
    if not pem.strip():
        raise CRDsError(Exit.USAGE, "unexpected empty ca cert data")  # upstream's words
    if b"PRIVATE KEY-----" in pem:
        raise CRDsError(Exit.USAGE, "the CA's certificates have a private key beside them, which CRDs would publish")
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise CRDsError(Exit.USAGE, "the CA's certificates are not in PEM form") from None
    return pem
