"""Applies CRDs and their patches to the API server of an instance.

Upstream: ``applyCrds`` and ``patchCrds`` in operator/pkg/tasks/init/karmadaresource.go (v1.17.1).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply import crd_client
from fleethook.engines.crds.apply.patches import Patch, check_patches, render_one
from fleethook.engines.crds.crds_errors import CRDsError
from fleethook.model.json import JSON, JSONObject, as_object

Result = Literal["created", "configured", "unchanged"]

# Upstream's words.
_APPLYING: Final = "failed to apply karmada crds, err: "
_PATCHING: Final = "failed to patch karmada crds, err: "


class Applied(NamedTuple):
    """The result of applying one CRD."""

    name: str
    result: Result
    patched: bool
    """Whether a patch of the tarball was applied too."""
    warning: str = ""


class _CRDState(NamedTuple):
    """Digests of a CRD before and after. Keeping the objects would hold all CRDs of a release in memory."""

    before: bytes | None
    after: bytes
    patched: bool = False

    def to_result(self, name: str) -> Applied:
        same = self.before == self.after
        return Applied(name, "created" if self.before is None else "unchanged" if same else "configured", self.patched)


async def apply(
    connection: Connection, crds: Mapping[str, JSONObject], patches: Sequence[Patch], *, dry_run: bool = False
) -> list[Applied]:
    """Apply every CRD, then every patch, and return the result for each CRD. Deletes no CRD.

    The two steps are not one apply of the CRDs that `render_crds` returns. Karmada's operator applies the CRDs without
    the patches as the same field manager, which would remove the conversion that the patches set.

    Args:
        connection: Connection to the API server of the instance.
        crds: CRDs by name, in order.
        patches: Patches in order; each is for one of the CRDs.
        dry_run: Send dry-run requests only.

    Raises:
        CRDsError: NETWORK or HTTP; the message lists the CRDs that had been applied. A second run is safe.
    """
    check_patches(crds, patches)
    done: dict[str, _CRDState] = {}
    try:
        for name in crds:
            before = await crd_client.find(connection, name)
            # A dry run stores no new CRD that the patches could be sent to.
            tried = render_one(name, crds, patches) if dry_run and before is None else crds[name]
            known = None if before is None else _digest_crd(before)
            done[name] = _CRDState(known, _digest_crd(await crd_client.apply(connection, name, tried, dry_run=dry_run)))
    except CRDsError as error:
        raise _explain_stop(_APPLYING, error, done, crds) from None
    for patch in patches:
        try:
            done[patch.crd] = await _apply_patch(connection, patch, done[patch.crd], dry_run=dry_run)
        except CRDsError as error:
            raise _explain_stop(_PATCHING, error, done, crds) from None
    return [written.to_result(name) for name, written in done.items()]


def summarize(crds: Sequence[Applied]) -> str:
    """Return how many CRDs were created, configured and unchanged."""
    counts = Counter(one.result for one in crds)
    listed = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
    return f"{len(crds)} CRDs ({listed})" if crds else "no CRDs"


async def _apply_patch(connection: Connection, patch: Patch, written: _CRDState, *, dry_run: bool) -> _CRDState:
    if not dry_run:
        after = await crd_client.patch(connection, patch, dry_run=False)
        return written._replace(after=_digest_crd(after), patched=True)
    if written.before is None:
        return written._replace(patched=True)
    tried = _digest_crd(await crd_client.patch(connection, patch, dry_run=True))
    # The dry run patches the stored CRD, not the applied one: a change by either step counts.
    return written._replace(after=written.after if tried == written.before else tried, patched=True)


def _digest_crd(crd: Mapping[str, JSON]) -> bytes:
    """Return a digest of a CRD without status and resource version: controllers write the status meanwhile.

    The resource version alone would not do: a dry run never changes it.
    """
    metadata = as_object(crd.get("metadata"))
    managers = metadata.get("managedFields")
    ours = (
        [one for one in managers if as_object(one).get("subresource") != "status"] if isinstance(managers, list) else []
    )
    others = {name: value for name, value in metadata.items() if name not in ("resourceVersion", "managedFields")}
    rest = {name: value for name, value in crd.items() if name not in ("metadata", "status")}
    return hashlib.sha256(json.dumps([others, ours, rest], sort_keys=True).encode()).digest()


def _explain_stop(
    words: str, error: CRDsError, done: Mapping[str, _CRDState], crds: Mapping[str, JSONObject]
) -> CRDsError:
    patched = [name for name, written in done.items() if written.patched]
    names = f": {', '.join(done)}" if done else ""
    more = f"; patched: {', '.join(patched)}" if patched else ""
    text = f"{words}{error} ({len(done)} of {len(crds)} CRDs had been applied{names}{more}; running it again is safe)"
    return CRDsError(error.exit, text, transient=error.transient)
