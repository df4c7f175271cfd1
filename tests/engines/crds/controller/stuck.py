"""Verifies tarballs as `fleethook.engines.crds.controller.verifier_process` does, but never ends with one that takes more than a first try."""

import os
import time
from typing import Any

from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.archive.crd_content import LIMITS
from fleethook.engines.crds.controller import verifier_process
from fleethook.engines.crds.controller.verifier_process import answer_questions

_verify = archive.verify


def _stuck(tarball: bytes, **options: Any) -> Any:
    parent = os.getppid()
    while options["limits"] == LIMITS and os.getppid() == parent:
        time.sleep(0.05)
    return _verify(tarball, **options)


if __name__ == "__main__":
    archive.verify = _stuck
    answer_questions(verifier_process.answer_question)
