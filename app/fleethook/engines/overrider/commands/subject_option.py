"""The option ``--subject``: one YurtAppSet or YurtAppDaemon as ``KIND[.GROUP]/[NAMESPACE/]NAME[@CLUSTER]``."""

from typing import Annotated, NamedTuple

from fleethook.cli.command_line import Option
from fleethook.cli.exit_codes import fail
from fleethook.cluster.store import ObjectKey
from fleethook.model.gvk import GroupKind, guess_plural

SubjectOption = Annotated[
    str | None,
    Option("--subject", metavar="KIND/NAME", help="Take only this YurtAppSet or YurtAppDaemon: KIND/NAMESPACE/NAME."),
]


class ObjectName(NamedTuple):
    """A name that a user wrote. Each part that is None matches all objects.

    Attributes:
        text: The name as written.
        kind: Kind or plural in lower case.
        group: API group.
        namespace: Namespace.
        name: Name of the object.
        cluster: Logical cluster.
    """

    text: str
    kind: str
    group: str | None
    namespace: str | None
    name: str
    cluster: str | None

    def matches(self, key: ObjectKey) -> bool:
        """Return whether this is a name of the object."""
        return (
            self.matches_kind(key.group_kind)
            and self.name == key.name
            and self.namespace in (None, key.namespace, *(() if key.namespace else ("default",)))
            and self.cluster in (None, key.cluster)
        )

    def matches_kind(self, group_kind: GroupKind) -> bool:
        """Return whether this is a name of an object of the kind."""
        kind = group_kind.kind.lower()
        return self.kind in (kind, guess_plural(kind)) and self.group in (None, group_kind.group)


def parse_subject(text: str) -> ObjectName:
    """Return the parts of a name. Exits with a message if it has another form."""
    kinded, _, cluster = text.partition("@")
    parts = kinded.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        fail(f"--subject {text}: expected KIND/NAME, as in YurtAppSet/default/demo")
    kind, separator, group = parts[0].partition(".")
    namespace = parts[1] if len(parts) == 3 else None
    return ObjectName(text, kind.lower(), group if separator else None, namespace, parts[-1], cluster or None)
