"""The kinds that rules follow, in their server."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fleethook.admission.declaration import RuleError
from fleethook.admission.rule import Rule
from fleethook.admission.rules_file import load_rules
from fleethook.cluster.followed_cluster import Followed
from fleethook.engine import EngineStartError
from fleethook.engines.hooks.hooks_settings import HooksSettings
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.settings import Settings

if TYPE_CHECKING:
    from fleethook.cluster.kubernetes.resources import WatchedResource


def list_resources(settings: Settings) -> Followed:
    """Return the resources that rules follow; raises EngineStartError."""
    from fleethook.cluster.kubernetes.resources import (  # noqa: PLC0415 - see fleethook.cluster
        WatchedResource,
        decode_object,
    )

    try:
        rules = load_rules(settings.section(HooksSettings).hooks)
    except RuleError as error:
        raise EngineStartError(str(error)) from error
    found = {}
    for api_version, kind, plural in sorted({one for rule in rules for one in rule.declaration.follows}):
        group, version = parse_api_version(api_version)
        found[group, kind] = WatchedResource(group, version, plural, kind, decode_object)
    return Followed(list(found.values()))


def check_followed(rules: Iterable[Rule], followed: "Mapping[GroupKind, WatchedResource]") -> None:
    """Raise RuleError for a rule that follows a kind which the server does not follow completely."""
    for rule in rules:
        for api_version, kind, _ in rule.declaration.follows:
            present = followed.get(GroupKind(parse_api_version(api_version)[0], kind))
            if present is None:
                raise RuleError(
                    f"{rule.place}: the rule {rule.name} follows {kind}, and no rule did so when the server started: "
                    "restart the server"
                )
            if not present.is_complete:
                raise RuleError(
                    f"{rule.place}: the rule {rule.name} follows {kind}, of which other engines of this server read "
                    "only a part: serve the rules by a server of their own"
                )
