"""The difference between two states of CRDs, by CRD and version."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from fleethook.engines.crds.apply.crd_patches import render_tree
from fleethook.engines.crds.archive.crd_content import Tree
from fleethook.model.json import JSON, as_object

Change = Literal["added", "changed", "removed"]

_VERSIONS: Final = "versions"


class VersionChange(NamedTuple):
    """The change of a version of a CRD."""

    name: str
    change: Change
    fields: tuple[str, ...] = ()
    """The differing fields of the version, if both states have it."""


class CRDChange(NamedTuple):
    """The change of a CRD."""

    name: str
    change: Change
    versions: tuple[VersionChange, ...] = ()
    fields: tuple[str, ...] = ()
    """The differing fields of ``spec``, without ``versions``."""
    lost: tuple[str, ...] = ()
    """Removed versions that objects may be stored in (``status.storedVersions``)."""

    def format_lines(self) -> Iterator[str]:
        """Yield lines of text: one for the CRD, then one for each changed part."""
        yield f"{self.change:<8} {self.name}"
        for version in self.versions:
            differs = f": {', '.join(version.fields)}" if version.fields else ""
            yield f"  version {version.name} {version.change}{differs}"
        if self.fields:
            yield f"  spec changed: {', '.join(self.fields)}"
        if self.lost:
            yield f"  objects may be stored in {', '.join(self.lost)}, which would be lost"


State = Mapping[str, Mapping[str, JSON]]
"""CRDs by name."""


def compare(before: State, after: State) -> list[CRDChange]:
    """Return the changes between two states, sorted by name; status and metadata are not compared.

    Args:
        before: For example the CRDs of a server, with their stored versions.
        after: The desired state.
    """
    found = (_compare_crd(name, before.get(name), after.get(name)) for name in sorted({*before, *after}))
    return [change for change in found if change is not None]


def find_lost_versions(before: Mapping[str, JSON], after: Mapping[str, JSON]) -> tuple[str, ...]:
    """Return the stored versions of a CRD (``status.storedVersions``) that its new state does not have."""
    stored = as_object(before.get("status")).get("storedVersions")
    versions = _list_versions(after)
    return tuple(str(name) for name in (stored if isinstance(stored, list) else ()) if name not in versions)


def _compare_crd(name: str, before: Mapping[str, JSON] | None, after: Mapping[str, JSON] | None) -> CRDChange | None:
    if after is None:
        return CRDChange(name, "removed")
    if before is None:
        return CRDChange(name, "added", tuple(VersionChange(one, "added") for one in _list_versions(after)))
    versions = tuple(_compare_versions(_list_versions(before), _list_versions(after)))
    fields = _list_differing_fields(as_object(before.get("spec")), as_object(after.get("spec")), leave_out=(_VERSIONS,))
    lost = find_lost_versions(before, after)
    return CRDChange(name, "changed", versions, fields, lost) if versions or fields or lost else None


def _compare_versions(
    before: Mapping[str, Mapping[str, JSON]], after: Mapping[str, Mapping[str, JSON]]
) -> Iterator[VersionChange]:
    for name in dict.fromkeys((*before, *after)):
        if name not in after:
            yield VersionChange(name, "removed")
        elif name not in before:
            yield VersionChange(name, "added")
        elif fields := _list_differing_fields(before[name], after[name]):
            yield VersionChange(name, "changed", fields)


def _list_versions(crd: Mapping[str, JSON]) -> dict[str, Mapping[str, JSON]]:
    listed = as_object(crd.get("spec")).get(_VERSIONS)
    return {str(as_object(one).get("name")): as_object(one) for one in (listed if isinstance(listed, list) else ())}


def _list_differing_fields(
    before: Mapping[str, JSON], after: Mapping[str, JSON], *, leave_out: Sequence[str] = ()
) -> tuple[str, ...]:
    names = sorted({*before, *after} - set(leave_out))
    return tuple(name for name in names if before.get(name) != after.get(name))


def compare_releases(before: Tree, after: Tree) -> list[CRDChange]:
    """Return the changes between two releases, patched for the same imaginary instance.

    Raises:
        CRDsError: ARCHIVE if a patch cannot be merged.
    """
    return compare(render_tree(before), render_tree(after))
