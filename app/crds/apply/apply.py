"""CRDs and their patches into the API server of an instance (research 2.5)."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from app.crds.apply import crd_client
from app.crds.apply.patches import Patch, check_patches, render_one
from app.crds.failures import CRDsError
from app.kube.connection import Connection
from app.model.json import JSON, JSONObject, as_object

Result = Literal["created", "configured", "unchanged"]

# Upstream's words.
_APPLYING: Final = "failed to apply karmada crds, err: "
_PATCHING: Final = "failed to patch karmada crds, err: "


class Applied(NamedTuple):
    """What became of a CRD."""

    name: str
    result: Result
    patched: bool
    """Whether the tarball has a patch for it, and it went in."""


class _CRDState(NamedTuple):
    """Digests of a CRD. Its texts would have to be kept for all CRDs of a release at once."""

    before: bytes | None
    after: bytes
    patched: bool = False

    def to_result(self, name: str) -> Applied:
        same = self.before == self.after
        return Applied(name, "created" if self.before is None else "unchanged" if same else "configured", self.patched)


async def apply(
    connection: Connection, crds: Mapping[str, JSONObject], patches: Sequence[Patch], *, dry_run: bool = False
) -> list[Applied]:
    """Apply every CRD, then every patch, and tell what became of each CRD. None is ever deleted.

    These are two steps, and not one apply of what `render_crds` gives, because Karmada's operator applies the CRDs as the
    same field manager: it would take away what we had applied and it does not, which is the conversion.

    Args:
        connection: To the API server of the instance.
        crds: By name, in order.
        patches: In order; each is for one of the CRDs.
        dry_run: Let the server try it only.

    Raises:
        CRDsError: NETWORK or HTTP, with what had been applied before. Doing it all again does no harm.
    """
    check_patches(crds, patches)
    done: dict[str, _CRDState] = {}
    try:
        for name in crds:
            before = await crd_client.find(connection, name)
            # A CRD that a dry run has created is not there to be patched.
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
    # Tried on the CRD as it is stored, and not as it has been tried: either of both tells that something changes.
    return written._replace(after=written.after if tried == written.before else tried, patched=True)


def _digest_crd(crd: Mapping[str, JSON]) -> bytes:
    """Return a digest of all of a CRD but its status: others write that meanwhile, which changes the resource version.

    A dry run does not change the resource version, whatever it changes.
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
