"""Records audit annotations of webhook calls, with the keys of an apiserver."""

from typing import Final

import msgspec

from fleethook.engines.dispatch.hooks.hooks import Hook
from fleethook.model.formats.names import is_dns1123_subdomain, label_key_problem
from fleethook.model.json import JSON

_MUTATION: Final = "mutation.webhook.admission.k8s.io"
_PATCH: Final = "patch.webhook.admission.k8s.io"
_VALIDATING: Final = "validating.webhook.admission.k8s.io"
_FAILED_OPEN: Final = "failed-open"
_OWN: Final = "own-endpoint"

# The total size of recorded patches, in bytes. A request may have 256 patches of 2 MiB each.
_MAX_PATCHES: Final = 1024 * 1024


class Audit:
    """The audit annotations of one request; the first value of a key is kept.

    Attributes:
        annotations: The recorded annotations.
        dropped: The invalid keys that webhooks sent.
    """

    def __init__(self) -> None:
        self.annotations: Final[dict[str, str]] = {}
        self.dropped: Final[list[str]] = []
        self._patches = 0

    def record_call(self, hook: Hook, *, round_number: int, mutated: bool) -> None:
        """Record the call of a mutating webhook."""
        value = {"configuration": hook.configuration, "webhook": hook.name, "mutated": mutated}
        self._add(f"{_MUTATION}/round_{round_number}_index_{hook.position}", _encode(value))

    def record_patch(self, hook: Hook, operations: list[JSON], *, size: int, round_number: int) -> None:
        """Record the patch of a mutating webhook, up to a total size.

        Args:
            hook: The webhook.
            operations: The operations of the patch.
            size: The size of the patch in bytes.
            round_number: The round of the call.
        """
        self._patches += size
        if self._patches > _MAX_PATCHES:
            return
        value = {
            "configuration": hook.configuration, "webhook": hook.name, "patch": operations, "patchType": "JSONPatch"
        }  # fmt: skip
        self._add(f"{_PATCH}/round_{round_number}_index_{hook.position}", _encode(value))

    def record_fail_open(self, hook: Hook, *, round_number: int = 0, index: int) -> None:
        """Record an ignored failure; ``index`` counts all webhooks, in the validating phase only those called."""
        prefix = _MUTATION if hook.phase == "mutating" else _VALIDATING
        self._add(f"{_FAILED_OPEN}.{prefix}/round_{round_number}_index_{index}", hook.name)

    def record_own_endpoint(self, hook: Hook) -> None:
        """Record a webhook that is skipped because it is this server itself."""
        prefix = _MUTATION if hook.phase == "mutating" else _VALIDATING
        value = {"configuration": hook.configuration, "webhook": hook.name}
        self._add(f"{_OWN}.{prefix}/index_{hook.position}", _encode(value))

    def record_annotations(self, hook: Hook, annotations: dict[str, str]) -> None:
        """Record the audit annotations of a webhook's response, prefixed by its name."""
        for name, value in annotations.items():
            key = f"{hook.name}/{name}"
            if is_dns1123_subdomain(hook.name) and "/" not in name and label_key_problem(key) is None:
                self._add(key, value)
            else:
                self.dropped.append(key)

    def _add(self, key: str, value: str) -> None:
        self.annotations.setdefault(key, value)


def _encode(value: JSON) -> str:
    return msgspec.json.encode(value).decode()
