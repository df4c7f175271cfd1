"""Verifying tarballs beside the controller: in processes with limits, a few at once, and fairly among namespaces."""

import asyncio
import json
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from app.control.child import Child
from app.control.slots import Slots
from app.crds.apply.encoded_crds import EncodedCRDs
from app.crds.apply.patches import Patch
from app.crds.archive.manifest import Manifest
from app.crds.controller.verifier_process import MODULE, Answer, Question
from app.crds.failures import CRDsError, Exit

AT_ONCE: Final = 2
_WHOLE: Final = 1
SHORT: Final = 4
"""A first try has a quarter of all limits, which is 1.5 times a release: a tarball beyond that is long work."""

Load = Callable[[], bytes]
"""Returns the bytes of a tarball. It is called on a thread once a process is free, so that no tarball waits in memory;
it may raise CRDsError."""


class Verifier:
    """Verifies tarballs in processes of their own.

    A tarball is tried with small limits first. One that takes more waits until no other waits for its first try, and
    such tarballs never have all processes. So a namespace with a release waits for one first try of each other
    namespace, at most, and not for any tarball that takes more.
    """

    def __init__(self, *, at_once: int = AT_ONCE, module: str = MODULE) -> None:
        """Prepare; processes start when they are needed.

        Args:
            at_once: How many processes there are.
            module: Python module that they run.
        """
        self._slots: Final = PrioritySlots(at_once)
        self._children: Final = tuple(ChildProcess(module) for _ in range(at_once))
        self._free: Final = list(self._children)
        self._threads: Final = ThreadPoolExecutor(at_once, "verifying")

    async def verify(self, load: Load, *, lane: Hashable, strict: bool, normalize_dot: bool) -> Manifest:
        """Verify a tarball as `app.crds.archive.archive.verify` does.

        Args:
            load: Returns its bytes.
            lane: The namespace that it is for; namespaces take turns.
            strict: Take a warning for an error.
            normalize_dot: Take ``./crds/…`` for ``crds/…``.

        Raises:
            CRDsError: As there; LIMIT also for too much memory or CPU time.
        """
        question = Question(b"", strict, normalize_dot, SHORT)
        answer = await self._ask(question, load, lane)
        if answer.exit == Exit.LIMIT:
            answer = await self._ask(msgspec.structs.replace(question, scale=_WHOLE), load, lane)
        return answer.manifest()

    async def read(
        self, load: Load, values: Mapping[str, str], *, lane: Hashable, whole: bool
    ) -> tuple[EncodedCRDs, list[Patch]]:
        """Return the CRDs and the patches of a tarball that has been verified.

        Args:
            load: Returns its bytes.
            values: Of the placeholders in patches (`app.crds.apply.placeholders.build_values`).
            lane: The namespace that it is for; namespaces take turns.
            whole: Whether it may take more than a first try may.

        Raises:
            CRDsError: ARCHIVE when a patch does not fit; LIMIT as in `verify`, and for a first try that is not enough.
        """
        # Names without `./` are the same either way, and others were admitted when it was verified.
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
            raise CRDsError(Exit.INTERNAL, "the process that verifies tarballs cannot be used", transient=True)
        return msgspec.msgpack.decode(answer, type=Answer)


def _ask_child(child: Child, question: Question, load: Load) -> bytes | None:
    return child.ask(msgspec.msgpack.encode(msgspec.structs.replace(question, tarball=load())))
