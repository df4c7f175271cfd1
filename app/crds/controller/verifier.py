"""Verifying tarballs beside the controller: in processes with limits, a few at once, and fairly among instances."""

import asyncio
import json
from collections.abc import Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from app.control.child_process import ChildProcess
from app.control.priority_slots import PrioritySlots
from app.crds.apply.patches import Patch
from app.crds.archive.manifest import Manifest
from app.crds.controller.verifying import MODULE, Answer, Question
from app.crds.failures import CRDsError, Exit
from app.model.json import JSONObject

AT_ONCE: Final = 2
_WHOLE: Final = 1
SHORT: Final = 4
"""A first try has a quarter of all limits, which is 1.5 times a release: a tarball beyond that is long work."""


class Verifier:
    """Verifies tarballs in processes of their own.

    A tarball is tried with small limits first. One that takes more waits until no other waits for its first try, and
    such tarballs never have all processes. So an instance with a release waits for the first try of each other one, at
    most, and not for what these are in whole.
    """

    def __init__(self, *, at_once: int = AT_ONCE, module: str = MODULE) -> None:
        """Prepare; processes start when they are needed.

        Args:
            at_once: How many processes there are.
            module: What they run.
        """
        self._slots: Final = PrioritySlots(at_once)
        self._children: Final = [ChildProcess(module) for _ in range(at_once)]
        self._threads: Final = ThreadPoolExecutor(at_once, "verifying")

    async def verify(self, tarball: bytes, *, lane: Hashable, strict: bool, normalize_dot: bool) -> Manifest:
        """Verify a tarball as `app.crds.archive.archive.verify` does.

        Args:
            tarball: Its bytes.
            lane: The instance that it is for; instances take turns.
            strict: Take a warning for an error.
            normalize_dot: Take ``./crds/…`` for ``crds/…``.

        Raises:
            CRDsError: As there; LIMIT also for too much memory or CPU time.
        """
        return (await self._answer(Question(tarball, strict, normalize_dot, SHORT), lane)).manifest()

    async def read(
        self, tarball: bytes, values: Mapping[str, str], *, lane: Hashable, normalize_dot: bool
    ) -> tuple[dict[str, JSONObject], list[Patch]]:
        """Return the CRDs by name, and the patches, of a tarball that has been verified.

        Args:
            tarball: Its bytes.
            values: Of the placeholders in patches (`app.crds.apply.placeholders.values_of`).
            lane: The instance that it is for; instances take turns.
            normalize_dot: Take ``./crds/…`` for ``crds/…``.

        Raises:
            CRDsError: ARCHIVE when a patch does not fit; LIMIT as in `verify`.
        """
        answer = await self._answer(Question(tarball, False, normalize_dot, SHORT, dict(values)), lane)
        answer.check()
        crds, patches = json.loads(answer.release)
        return crds, [Patch(*one) for one in patches]

    async def _answer(self, question: Question, lane: Hashable) -> Answer:
        answer = await self._ask(question, lane)
        if answer.exit != Exit.LIMIT:
            return answer
        return await self._ask(msgspec.structs.replace(question, scale=_WHOLE), lane)

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self._children:
            child.stop()

    async def _ask(self, question: Question, lane: Hashable) -> Answer:
        async with self._slots.hold(lane, long=question.scale == _WHOLE):
            child = self._children.pop()
            message = msgspec.msgpack.encode(question)
            asking = asyncio.get_running_loop().run_in_executor(self._threads, child.ask, message)
            try:
                answer = await asyncio.shield(asking)
            except asyncio.CancelledError:
                child.stop()
                raise
            finally:
                self._children.append(child)
        if answer is None:
            raise CRDsError(Exit.INTERNAL, "the process that verifies tarballs cannot be used", transient=True)
        return msgspec.msgpack.decode(answer, type=Answer)
