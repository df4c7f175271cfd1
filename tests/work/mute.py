"""A process that takes questions and never answers."""

import signal

from fleethook.engines.crds.controller.verifier_process import answer_questions


def _pause(_: bytes) -> bytes:
    while True:
        signal.pause()


if __name__ == "__main__":
    answer_questions(_pause)
