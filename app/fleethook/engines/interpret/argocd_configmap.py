"""Reads the ConfigMap argocd-cm: its health checks, and its customizations without a counterpart in Karmada.

Sources: argo-cd v3.1 util/settings/settings.go (GetResourceOverrides, appendResourceOverridesFromSplitKeys),
pkg/apis/application/v1alpha1/types.go (rawResourceOverride).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, FieldLines, ManifestError, read_values
from fleethook.cluster.store import key_of
from fleethook.engines.interpret.lua.customization_rules_and_configmap import describe_object
from fleethook.model.gvk import GroupKind, GroupVersionKind
from fleethook.model.json import JSON, as_object
from fleethook.model.karmada import CONFIG_MAP

Level = Literal["error", "warning", "note"]

_KEY: Final = "resource.customizations"
_HEALTH: Final = "health.lua"
_OPEN_LIBRARIES: Final = "health.lua.useOpenLibs"
_RETAIN_HINT: Final = "write a Retain script for the fields that member clusters set"
_WITHOUT_COUNTERPART: Final = {
    "actions": "actions have no counterpart in Karmada",
    "ignoreDifferences": f"ignoreDifferences has no counterpart in Karmada: {_RETAIN_HINT}",
    "ignoreResourceUpdates": "ignoreResourceUpdates has no counterpart in Karmada",
    "knownTypeFields": "knownTypeFields has no counterpart in Karmada",
}
_MEMBERS: Final = {"health": _HEALTH, "useOpenLibs": _OPEN_LIBRARIES} | {name: name for name in _WITHOUT_COUNTERPART}
"""The members of a customization by the types in keys such as ``resource.customizations.health.apps_Deployment``."""


class ScriptPlace(NamedTuple):
    """The position of a script, a test or a member.

    Attributes:
        source: The file.
        line: The line, 0 for the whole file.
        first: The line of the first line of a script, 0 if lines of the script are no lines of the file.
    """

    source: str
    line: int
    first: int = 0

    def at(self, line: int) -> "ScriptPlace":
        """Return the place of a line of the script."""
        return ScriptPlace(self.source, self.first + line - 1) if self.first else ScriptPlace(self.source, self.line)


class ConversionRemark(NamedTuple):
    """A line of the report.

    Attributes:
        level: ``error`` for losses, ``warning`` for parts without a counterpart.
        code: Stable name of the reason.
        subject: The kind as Argo CD writes it, ``GROUP/KIND``, or an object.
        text: The message.
        place: Its position in the input.
    """

    level: Level
    code: str
    subject: str
    text: str
    place: ScriptPlace


class HealthCheck(NamedTuple):
    """A script of Argo CD.

    Attributes:
        pattern: Its kinds as ``GROUP/KIND``, or ``KIND`` for the core group; may have wildcards.
        script: The Lua code.
        place: Its position.
        kinds: Its kinds with versions, if the source names them.
    """

    pattern: str
    script: str
    place: ScriptPlace
    kinds: tuple[GroupVersionKind, ...] = ()


class Checks(NamedTuple):
    """Health checks, and remarks about parts of the input that are none."""

    checks: list[HealthCheck]
    remarks: list[ConversionRemark]


class _Member(NamedTuple):
    """A member of a customization of Argo CD."""

    value: JSON
    place: ScriptPlace


def read_checks(document: Document, lines: FieldLines) -> Checks:
    """Return the health checks in an object: those in a ConfigMap with the keys of ``argocd-cm``."""
    checks = Checks([], [])
    if key_of(document.object).group_kind == CONFIG_MAP:
        data = as_object(document.object.get("data"))
        customizations = _read_map(checks, document, (data.get(_KEY), f"data.{_KEY}"), lines)
        _read_keys(checks, document, customizations, lines)
        for pattern, members in customizations.items():
            _read_members(checks, pattern, members)
    return checks


def _read_map(
    found: Checks, document: Document, text: tuple[JSON, str], lines: FieldLines
) -> dict[str, dict[str, _Member]]:
    """Return the customizations in a text, by the names of their kinds and members."""
    customizations: dict[str, dict[str, _Member]] = {}
    for part in _read_nested(found, document, text, lines):
        value: Any = part.object
        if not isinstance(value, dict):
            place = ScriptPlace(part.source, part.line)
            found.remarks.append(ConversionRemark("error", "unreadable", text[1], "must be a mapping", place))
        for pattern, members in as_object(value).items():
            if not isinstance(members, dict):
                place = _find_place(part, pattern, lines)
                found.remarks.append(ConversionRemark("error", "unreadable", pattern, "must be a mapping", place))
            customizations[pattern] = {
                name: _Member(member, _find_place(part, f"{pattern}.{name}", lines))
                for name, member in as_object(members).items()
            }
    return customizations


def _read_keys(
    found: Checks, document: Document, customizations: dict[str, dict[str, _Member]], lines: FieldLines
) -> None:
    """Add the keys of a ConfigMap for single members; they replace the members of the map."""
    for key, value in as_object(document.object.get("data")).items():
        parts = key.split(".", 3)
        if parts[:2] == _KEY.split(".") and len(parts) == len(("resource", "customizations", "TYPE", "KIND")):
            _read_key(found, key, _Member(value, _find_place(document, f"data.{key}", lines)), customizations)


def _read_key(found: Checks, key: str, member: _Member, customizations: dict[str, dict[str, _Member]]) -> None:
    """Read a key such as ``resource.customizations.health.apps_Deployment``."""
    _, _, kind_of_member, kinds = key.split(".", 3)
    if not kinds or kinds.count("_") > 1:
        text = "the kind must be GROUP_KIND, or KIND for the core group"
        found.remarks.append(ConversionRemark("error", "invalid-kind", key, text, member.place))
    elif kind_of_member not in _MEMBERS:
        text = f"the type {kind_of_member} is unknown: use one of {', '.join(_MEMBERS)}"
        found.remarks.append(ConversionRemark("error", "unknown-member", key, text, member.place))
    else:
        pattern = "*/*" if kinds == "all" else kinds.replace("_", "/")
        customizations.setdefault(pattern, {})[_MEMBERS[kind_of_member]] = member


def _read_members(found: Checks, pattern: str, members: Mapping[str, _Member]) -> None:
    """Read the customization for a kind."""
    for name, (value, place) in members.items():
        if name == _HEALTH and isinstance(value, str) and value:
            found.checks.append(HealthCheck(pattern, value, place))
        elif name == _HEALTH and value not in ("", None):
            found.remarks.append(ConversionRemark("error", "not-text", pattern, f"{name} must be a string", place))
        elif name in _WITHOUT_COUNTERPART and value:
            text = _WITHOUT_COUNTERPART[name]
            found.remarks.append(ConversionRemark("warning", "no-counterpart", pattern, text, place))
        elif name not in (_HEALTH, _OPEN_LIBRARIES, *_WITHOUT_COUNTERPART):
            text = f"the member {name} is unknown: Argo CD ignores it"
            found.remarks.append(ConversionRemark("warning", "unknown-member", pattern, text, place))


def format_pattern(kind: GroupKind) -> str:
    """Return a kind as Argo CD writes it, ``GROUP/KIND``, or ``KIND`` for the core group."""
    return f"{kind.group}/{kind.kind}" if kind.group else kind.kind


def _find_place(document: Document, field: str, lines: FieldLines) -> ScriptPlace:
    return ScriptPlace(document.source, lines.line(document, field), lines.first_line(document, field))


def _read_nested(found: Checks, document: Document, text: tuple[JSON, str], lines: FieldLines) -> Iterator[Document]:
    """Yield the YAML documents in a text with its field, with their lines in the file."""
    value, field = text
    if not isinstance(value, str):
        return
    place = _find_place(document, field, lines)
    before = (place.first or place.line) - 1
    try:
        for one in read_values(value, source=document.source):
            part: Any = one.value
            yield Document(part, document.source, before + one.line, one.text, (one.number,), before + one.first_line)
    except ManifestError as error:
        subject, at = describe_object(document.object), ScriptPlace(document.source, before + error.line)
        found.remarks.append(ConversionRemark("error", "unreadable", subject, f"{field}: {error.reason}", at))
