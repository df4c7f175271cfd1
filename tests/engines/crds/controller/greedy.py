"""Verifies tarballs as `fleethook.engines.crds.controller.verifier_process` does, but with defects that its limits are for."""

import os
from pathlib import Path
from typing import Any

from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.controller import verifier_process
from fleethook.engines.crds.controller.verifier_process import answer_questions


def _verify(tarball: bytes, **_: Any) -> Any:
    match tarball.decode():
        case "memory":
            return bytearray(verifier_process.MAX_MEMORY_BYTES)
        case "cpu":
            while True:
                pass
        case "disk":
            return Path(os.environ["TMPDIR"], "written").write_bytes(b"x")
        case _:
            os._exit(7)


if __name__ == "__main__":
    verifier_process.MAX_CPU_SECONDS = 1  # type: ignore[misc]
    archive.verify = _verify
    answer_questions(verifier_process.answer_question)
