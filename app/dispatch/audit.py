"""What a dispatch leaves besides its verdict: audit annotations and warnings, within an apiserver's limits."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from app.dispatch.hooks import Hook
from app.model.json import JSON
from app.model.meta import is_dns1123_subdomain, label_key_problem

_MUTATION: Final = "mutation.webhook.admission.k8s.io"
_PATCH: Final = "patch.webhook.admission.k8s.io"
_VALIDATING: Final = "validating.webhook.admission.k8s.io"
_FAILED_OPEN: Final = "failed-open"
_OWN: Final = "own-endpoint"

# k8s.io/apiserver/pkg/endpoints/filters: what all warnings of a request may have in characters, and what each may once
# they have more.
_MOST_CHARACTERS: Final = 4096
_MOST_WHEN_MANY: Final = 256
# A pattern and not a loop: a text may have 8 MiB, of which a loop looks at 10 characters in a microsecond.
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
# Bytes of the patches that are noted for one request. A request may have 256 patches of 2 MiB each.
_MAX_PATCHES: Final = 1024 * 1024


class Audit:
    """Audit annotations: the first value of a key stays.

    Attributes:
        annotations: What has been noted.
        dropped: The keys that webhooks gave and that no audit log takes.
    """

    def __init__(self) -> None:
        self.annotations: Final[dict[str, str]] = {}
        self.dropped: Final[list[str]] = []
        self._patches = 0

    def record_call(self, hook: Hook, *, round_number: int, mutated: bool) -> None:
        """Note that a mutating webhook was asked."""
        value = {"configuration": hook.configuration, "webhook": hook.name, "mutated": mutated}
        self._add(f"{_MUTATION}/round_{round_number}_index_{hook.position}", _text(value))

    def record_patch(self, hook: Hook, operations: list[JSON], *, size: int, round_number: int) -> None:
        """Note the patch of a mutating webhook, as long as all of them together are not too large for an answer.

        Args:
            hook: The webhook.
            operations: Its patch.
            size: The bytes of the patch.
            round_number: When it was asked.
        """
        self._patches += size
        if self._patches > _MAX_PATCHES:
            return
        value = {
            "configuration": hook.configuration, "webhook": hook.name, "patch": operations, "patchType": "JSONPatch"
        }  # fmt: skip
        self._add(f"{_PATCH}/round_{round_number}_index_{hook.position}", _text(value))

    def record_fail_open(self, hook: Hook, *, round_number: int = 0, index: int) -> None:
        """Note that the failure of a webhook was ignored; ``index`` is its place as upstream counts in its phase."""
        prefix = _MUTATION if hook.phase == "mutating" else _VALIDATING
        self._add(f"{_FAILED_OPEN}.{prefix}/round_{round_number}_index_{index}", hook.name)

    def record_own_endpoint(self, hook: Hook) -> None:
        """Note that a webhook was not called because it is this server itself."""
        prefix = _MUTATION if hook.phase == "mutating" else _VALIDATING
        value = {"configuration": hook.configuration, "webhook": hook.name}
        self._add(f"{_OWN}.{prefix}/index_{hook.position}", _text(value))

    def record_annotations(self, hook: Hook, annotations: dict[str, str]) -> None:
        """Note what a webhook itself wants in the audit log, below its own name."""
        for name, value in annotations.items():
            key = f"{hook.name}/{name}"
            if is_dns1123_subdomain(hook.name) and "/" not in name and label_key_problem(key) is None:
                self._add(key, value)
            else:
                self.dropped.append(key)

    def _add(self, key: str, value: str) -> None:
        self.annotations.setdefault(key, value)


def _text(value: JSON) -> str:
    return msgspec.json.encode(value).decode()


def limit_warnings(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings that a client is sent: each once, none empty, without control characters, bounded.

    All in full if they have 4096 characters at most; else each cut to 256, as many as there is room for (upstream:
    endpoints/filters/warning.go).
    """
    kept = list(dict.fromkeys(clean for text in texts if (clean := _printable(text))))
    if sum(map(len, kept)) <= _MOST_CHARACTERS:
        return tuple(kept)
    room, found = _MOST_CHARACTERS, []
    for text in dict.fromkeys(text[:_MOST_WHEN_MANY] for text in kept):
        if len(text) > room:
            break
        room -= len(text)
        found.append(text)
    return tuple(found)


def _printable(text: str) -> str:
    # Surrogates cannot be written as UTF-8, which is what a header has to be.
    return _UNPRINTABLE.sub("", text)
