"""What a hook configuration has to be, in the words of an apiserver (upstream: pkg/webhook/configuration)."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from cryptography import x509

from app.interpret.hooks import EVERY, listed, versions_member
from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject, as_object
from app.model.karmada import EXPLORING_CONFIGURATION, OPERATIONS, VERSION, Operation
from app.model.meta import is_dns1123_label, is_dns1123_subdomain

_LONGEST_TIMEOUT: Final = 30
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_DNS_1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', and start with an alphabetic character"
)


class Problem(NamedTuple):
    """One finding, in the words of an apiserver's field errors."""

    field: str
    text: str


def problems(group_kind: GroupKind, configuration: JSONObject) -> Iterator[Problem]:
    """Yield everything that is wrong with a configuration (upstream: pkg/webhook/configuration/validating.go)."""
    proposed = group_kind == EXPLORING_CONFIGURATION
    webhooks = configuration.get("webhooks")
    if webhooks is not None and not isinstance(webhooks, list):
        yield Problem("webhooks", "Invalid value: must be a list")
        return
    seen: set[str] = set()
    for index, webhook in enumerate(webhooks or ()):
        field = f"webhooks[{index}]"
        if not isinstance(webhook, dict):
            yield Problem(field, "Invalid value: must be an object")
            continue
        yield from _name_problems(webhook.get("name"), f"{field}.name")
        for position, rule in enumerate(listed(webhook.get("rules"))):
            yield from _rule_problems(as_object(rule), f"{field}.rules[{position}]", proposed=proposed)
        yield from _timeout_problems(webhook.get("timeoutSeconds"), f"{field}.timeoutSeconds")
        if proposed:
            yield from _policy_problems(webhook.get("failurePolicy"), f"{field}.failurePolicy")
        yield from _client_problems(as_object(webhook.get("clientConfig")), f"{field}.clientConfig")
        member = versions_member(proposed=proposed)
        yield from _version_problems(webhook.get(member), f"{field}.{member}")
        name = webhook.get("name")
        if isinstance(name, str) and name:
            if name in seen:
                yield Problem(f"{field}.name", f'Duplicate value: "{name}"')
            seen.add(name)


def _name_problems(name: JSON, field: str) -> Iterator[Problem]:
    if not isinstance(name, str) or not name:
        yield Problem(field, "Required value")
    elif not is_dns1123_subdomain(name):
        yield Problem(field, f'Invalid value: "{name}": {_SUBDOMAIN}')
    elif "." not in name:
        yield Problem(
            field, f'Invalid value: "{name}": should be a domain with at least two segments separated by dots'
        )


def _rule_problems(rule: Any, field: str, *, proposed: bool) -> Iterator[Problem]:
    configurable = [row for row in OPERATIONS if _configurable(row.operation, proposed=proposed)]
    known = sorted({EVERY, *(row.proposed if proposed else row.operation.value for row in configurable)})
    operations = rule.get("operations")
    yield from _names_problems(operations, f"{field}.operations", "operations", empty_items=True)
    for index, name in enumerate(listed(operations)):
        if name not in known:
            supported = ", ".join(f'"{one}"' for one in known)
            yield Problem(f"{field}.operations[{index}]", f'Unsupported value: "{name}": supported values: {supported}')
    yield from _names_problems(rule.get("apiGroups"), f"{field}.apiGroups", "API groups", empty_items=True)
    yield from _names_problems(rule.get("apiVersions"), f"{field}.apiVersions", "API versions", empty_items=False)
    if not proposed:
        yield from _names_problems(rule.get("kinds"), f"{field}.kinds", "kinds", empty_items=False)
        return
    yield from _names_problems(rule.get("resources"), f"{field}.resources", "resources", empty_items=False)
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        supported = ", ".join(f'"{one}"' for one in _SCOPES)
        yield Problem(f"{field}.scope", f'Unsupported value: "{scope}": supported values: {supported}')


def _configurable(operation: Operation, *, proposed: bool) -> bool:
    # The proposal has a hook for packing and none for components; what was shipped has it the other way round.
    return operation is not (Operation.COMPONENT if proposed else Operation.PRUNE)


def _names_problems(names: JSON, field: str, what: str, *, empty_items: bool) -> Iterator[Problem]:
    if not isinstance(names, list) or not names:
        yield Problem(field, "Required value")
        return
    if EVERY in names and len(names) > 1:
        yield Problem(field, f"Invalid value: {_shown(names)}: if '*' is present, must not specify other {what}")
    for index, name in enumerate(names):
        if not isinstance(name, str):
            yield Problem(f"{field}[{index}]", "Invalid value: must be a string")
        elif not name and not empty_items:
            yield Problem(f"{field}[{index}]", "Required value")


def _shown(names: Sequence[JSON]) -> str:
    return f"[{', '.join(str(name) for name in names)}]"


def _timeout_problems(timeout: JSON, field: str) -> Iterator[Problem]:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int) or not 1 <= timeout <= _LONGEST_TIMEOUT:
        yield Problem(field, f"Invalid value: {timeout}: the timeout value must be between 1 and 30 seconds")


def _policy_problems(policy: JSON, field: str) -> Iterator[Problem]:
    if policy is not None and policy not in ("Fail", "Ignore"):
        yield Problem(field, f'Unsupported value: "{policy}": supported values: "Fail", "Ignore"')


def _client_problems(config: Any, field: str) -> Iterator[Problem]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield Problem(field, "Required value: exactly one of url or service is required")
    elif url is not None:
        yield from (Problem(f"{field}.url", f'Invalid value: "{url}": {text}') for text in _url_problems(url))
    else:
        yield from _service_problems(as_object(service), f"{field}.service")
    yield from _bundle_problems(config.get("caBundle"), f"{field}.caBundle")


_URL_FORM: Final = "desired format: https://host[/path]"


def _url_problems(url: JSON) -> Iterator[str]:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        yield f"url must be a valid URL: {error}; {_URL_FORM}"
        return
    checks: tuple[tuple[bool, str], ...] = (
        (parts.scheme != "https", f"'https' is the only allowed URL scheme; {_URL_FORM}"),
        (not host, f"host must be specified; {_URL_FORM}"),
        ("@" in parts.netloc, "user information is not permitted in the URL"),
        (bool(parts.fragment), "fragments are not permitted in the URL"),
        (bool(parts.query), "query parameters are not permitted in the URL"),
    )
    yield from (text for wrong, text in checks if wrong)


def _service_problems(service: Any, field: str) -> Iterator[Problem]:
    for member in ("name", "namespace"):
        if not isinstance(service.get(member), str) or not service[member]:
            yield Problem(f"{field}.{member}", "Required value")
    port = service.get("port")
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535):
        yield Problem(
            f"{field}.port", f"Invalid value: {port}: port is not valid: must be between 1 and 65535, inclusive"
        )
    path = service.get("path")
    if path is None:
        return
    if not isinstance(path, str) or not path.startswith("/"):
        yield Problem(f"{field}.path", f"Invalid value: \"{path}\": must start with a '/'")
        return
    segments = path.strip("/").split("/") if path != "/" else []
    for index, segment in enumerate(segments):
        if not segment:
            yield Problem(f"{field}.path", f'Invalid value: "{path}": segment[{index}] may not be empty')
        elif not is_dns1123_subdomain(segment):
            yield Problem(f"{field}.path", f'Invalid value: "{path}": segment[{index}]: a lowercase RFC 1123 subdomain')


def _bundle_problems(bundle: JSON, field: str) -> Iterator[Problem]:
    """Say what is wrong with a CA bundle, which upstream finds out at the first call."""
    if bundle in (None, ""):
        return
    try:
        x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except (ValueError, TypeError, binascii.Error):
        yield Problem(field, "Invalid value: unable to load root certificates: it is not PEM in base64")


def _version_problems(versions: JSON, field: str) -> Iterator[Problem]:
    if not isinstance(versions, list) or not versions:
        yield Problem(field, f"Required value: must specify one of {VERSION}")
        return
    seen: set[JSON] = set()
    for index, version in enumerate(versions):
        if not isinstance(version, str) or not is_dns1123_label(version) or not version[0].isalpha():
            yield Problem(f"{field}[{index}]", f'Invalid value: "{version}": {_DNS_1035}')
        elif version in seen:
            yield Problem(f"{field}[{index}]", f'Invalid value: "{version}": duplicate version')
        else:
            seen.add(version)
    if VERSION not in seen:
        yield Problem(field, f"Invalid value: {_shown(versions)}: must include at least one of {VERSION}")
