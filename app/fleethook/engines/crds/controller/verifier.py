"""Verifies tarballs for the controller: in child processes with limits, and fairly among namespaces."""

import asyncio
import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from fleethook.engines.crds.apply.crd_patches import Patch
from fleethook.engines.crds.archive.unpacked_tree import Manifest
from fleethook.engines.crds.controller.verifier_process import MODULE, Answer, ChildProcess, Question
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.fairness.slots import Limits, Slots
from fleethook.model.json import JSONObject


class EncodedCRDs(Mapping[str, JSONObject]):
    """CRDs by name, in order. Each access decodes the CRD again."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        """Hold ``texts``, the JSON of each CRD by its name."""
        self._texts: Final = texts

    def __getitem__(self, name: str) -> JSONObject:
        """Return a CRD; raises KeyError if there is none of that name."""
        # msgspec does not decode integers of more than 64 bits, which a schema may have.
        decoded: JSONObject = json.loads(self._texts[name])
        return decoded

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._texts)

    def __len__(self) -> int:
        """Return how many CRDs there are."""
        return len(self._texts)


AT_ONCE: Final = 2
_WHOLE: Final = 1
SHORT: Final = 4
"""A first try has a quarter of all limits, which is 1.5 times a release. A larger tarball takes a long second try."""

Load = Callable[[], bytes]
"""Returns the bytes of a tarball, or raises CRDsError. It is called on a thread when a process is free, so that no
tarball waits in memory."""


class Verifier:
    """Verifies tarballs in child processes.

    Each tarball gets a first try with small limits. A tarball that exceeds them waits until no first try is waiting,
    and such tarballs never occupy all processes. So a namespace with a release waits for at most one first try of each
    other namespace, and never for a large tarball.
    """

    def __init__(self, *, at_once: int = AT_ONCE, module: str = MODULE) -> None:
        """Create the verifier; its processes start when they are needed.

        Args:
            at_once: Number of processes.
            module: Python module that the processes run.
        """
        self._slots: Final = Slots(Limits(at_once, long=max(1, at_once - 1)))
        self._children: Final = tuple(ChildProcess(module) for _ in range(at_once))
        self._free: Final = list(self._children)
        self._threads: Final = ThreadPoolExecutor(at_once, "verifying")

    async def verify(self, load: Load, *, lane: Hashable, strict: bool, normalize_dot: bool) -> Manifest:
        """Verify a tarball as `fleethook.engines.crds.archive.archive.verify` does.

        Args:
            load: Returns the bytes of the tarball.
            lane: Namespace of the instance; namespaces take turns.
            strict: Treat warnings as errors.
            normalize_dot: Accept ``./crds/…`` for ``crds/…``.

        Raises:
            CRDsError: As `fleethook.engines.crds.archive.archive.verify`; LIMIT also for too much memory or CPU time.
        """
        question = Question(b"", strict, normalize_dot, SHORT)
        answer = await self._ask(question, load, lane)
        if answer.exit == Exit.LIMIT:
            answer = await self._ask(msgspec.structs.replace(question, scale=_WHOLE), load, lane)
        answer.check()
        assert answer.manifest is not None
        return answer.manifest

    async def read(
        self, load: Load, values: Mapping[str, str], *, lane: Hashable, whole: bool
    ) -> tuple[EncodedCRDs, list[Patch]]:
        """Return the CRDs and the patches of a tarball that has been verified.

        Args:
            load: Returns the bytes of the tarball.
            values: Values of the placeholders in patches (`fleethook.engines.crds.apply.crd_patches.build_values`).
            lane: Namespace of the instance; namespaces take turns.
            whole: Apply the full limits, not those of a first try.

        Raises:
            CRDsError: ARCHIVE if a patch cannot be merged; LIMIT as in `verify`, or beyond the limits of a first try.
        """
        # normalize_dot is True: names without `./` mean the same with it, and verification admitted the others.
        answer = await self._ask(Question(b"", False, True, _WHOLE if whole else SHORT, dict(values)), load, lane)
        answer.check()
        return EncodedCRDs(answer.crds), [Patch(*one) for one in json.loads(answer.patches)]

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self._children:
            child.stop()

    async def _ask(self, question: Question, load: Load, lane: Hashable) -> Answer:
        async with self._slots.hold(lane, long=question.scale == _WHOLE):
            child = self._free.pop()
            asking = asyncio.get_running_loop().run_in_executor(self._threads, _ask_child, child, question, load)
            try:
                answer = await asyncio.shield(asking)
            except asyncio.CancelledError:
                child.stop()
                raise
            finally:
                self._free.append(child)
        if answer is None:
            raise CRDsError(Exit.INTERNAL, "the process that verifies tarballs failed", transient=True)
        return msgspec.msgpack.decode(answer, type=Answer)


def _ask_child(child: ChildProcess, question: Question, load: Load) -> bytes | None:
    return child.ask(msgspec.msgpack.encode(msgspec.structs.replace(question, tarball=load())))
