"""Tarballs verified beside the controller, in processes with limits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.apply.crd_patches import build_patches
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.controller.verifier import EncodedCRDs, Verifier
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.controller.hostile import expensive
from tests.engines.crds.tarballs import build, dotted, release, small


def test_each_access_decodes_a_crd_of_its_own() -> None:
    crds = EncodedCRDs({"b": b'{"spec":{"maximum":123456789012345678901234567890}}', "a": b"{}"})
    assert (list(crds), len(crds)) == (["b", "a"], 2)
    assert crds["b"] == {"spec": {"maximum": 123456789012345678901234567890}}
    assert crds["b"] is not crds["b"]
    with pytest.raises(KeyError):
        crds["c"]


HOSTILES = 16


@pytest.fixture
async def verifier() -> AsyncIterator[Verifier]:
    made = Verifier(at_once=2)
    yield made
    made.close()


@pytest.fixture
def greedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Verifier]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = Verifier(at_once=1, module="tests.engines.crds.controller.greedy")
    yield made
    made.close()


def verdict(verify: Callable[[], Any]) -> Any:
    """The result of verifying, or its failure."""
    try:
        return verify()
    except CRDsError as error:
        return str(error), error.exit


def raised(found: Any) -> Any:
    if isinstance(found, BaseException):
        raise found
    return found


async def test_the_verdict_is_that_of_the_archive(verifier: Verifier) -> None:
    for body, strict, normalize_dot in (
        (release(), False, False),
        (build(small(), **{"crds/bases/a.yml": b"a"}), False, False),
        (build(small(), **{"crds/bases/a.yml": b"a"}), True, False),
        (dotted(), False, False),
        (dotted(), False, True),
        (release()[:-9], False, False),
        (b"", False, False),
    ):
        expected = verdict(lambda: archive.verify(body, strict=strict, normalize_dot=normalize_dot))  # noqa: B023
        found = await asyncio.gather(
            verifier.verify(lambda: body, lane=1, strict=strict, normalize_dot=normalize_dot),  # noqa: B023
            return_exceptions=True,
        )
        assert verdict(lambda: raised(found[0])) == expected  # noqa: B023


@pytest.mark.parametrize(
    ("defect", "exit_code", "text"),
    [
        ("memory", Exit.LIMIT, "takes more than 512 MiB of memory"),
        ("cpu", Exit.LIMIT, "takes more than 1 s of CPU time"),
        ("disk", Exit.INTERNAL, "ended with status"),
        ("crash", Exit.INTERNAL, "ended with status"),
    ],
)
async def test_a_tarball_that_is_too_much_for_the_process_is_refused(
    greedy: Verifier, tmp_path: Path, defect: str, exit_code: Exit, text: str
) -> None:
    for _ in range(2):  # the process lives on
        with pytest.raises(CRDsError, match=text) as caught:
            await greedy.verify(defect.encode, lane=1, strict=False, normalize_dot=False)
        assert caught.value.exit is exit_code
    assert not any((tmp_path / "written").read_bytes() for _ in range((tmp_path / "written").exists()))


async def test_an_instance_with_a_release_waits_for_no_large_tarball(
    verifier: Verifier,
) -> None:
    hostile, honest = expensive(), release()
    done: list[str] = []

    async def verify(body: bytes, lane: str) -> None:
        with nullcontext() if body == honest else suppress(CRDsError):
            await verifier.verify(lambda: body, lane=lane, strict=False, normalize_dot=False)
        done.append(lane)

    async with asyncio.TaskGroup() as tasks:
        others = [tasks.create_task(verify(hostile, f"hostile {number}")) for number in range(HOSTILES)]
        # The first tries are over, and all that is left is long work.
        while verifier._slots.held_long == 0:
            await asyncio.sleep(0.001)
        before = len(done)
        await verify(honest, "honest")
        # The other process may end some long work meanwhile; tests/fairness/test_slots.py tests the order of slots.
        assert len(done) - before < HOSTILES // 2
        for other in others:
            other.cancel()


async def test_a_release_is_read_as_this_process_reads_it(verifier: Verifier) -> None:
    for body, normalize_dot in ((release(), False), (dotted(), True)):
        values = {"{{name}}": "n", "{{namespace}}": "s", "{{caBundle}}": "QQ=="}
        _, tree = archive.read_tree(body, normalize_dot=normalize_dot)
        crds, patches = await verifier.read(lambda: body, values, lane=1, whole=False)  # noqa: B023
        assert (dict(crds), patches) == (tree.crds, build_patches(tree, values))
        assert list(crds) == list(tree.crds)


async def test_a_release_that_cannot_be_patched_is_refused(verifier: Verifier) -> None:
    with pytest.raises(CRDsError, match="needs the namespace of the instance") as raised:
        await verifier.read(release, {"{{name}}": "n", "{{caBundle}}": "QQ=="}, lane=1, whole=False)
    assert raised.value.exit is Exit.USAGE


async def test_a_tarball_beyond_the_first_limits_is_read_with_the_full_limits_only(verifier: Verifier) -> None:
    body = release(properties=200)
    values = {"{{name}}": "n", "{{namespace}}": "s", "{{caBundle}}": "QQ=="}
    with pytest.raises(CRDsError) as raised:
        await verifier.read(lambda: body, values, lane=1, whole=False)
    assert raised.value.exit is Exit.LIMIT
    crds, _ = await verifier.read(lambda: body, values, lane=1, whole=True)
    assert len(crds) == 19


async def test_a_tarball_that_cannot_be_loaded_takes_no_process(verifier: Verifier) -> None:
    def gone() -> bytes:
        raise CRDsError(Exit.NOT_CACHED, "gone")

    for _ in range(3):
        with pytest.raises(CRDsError, match="gone"):
            await verifier.verify(gone, lane=1, strict=False, normalize_dot=False)
    assert (await verifier.verify(release, lane=1, strict=False, normalize_dot=False)).files
