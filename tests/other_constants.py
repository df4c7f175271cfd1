"""Run ``fleethook`` with other constants, for tests that would otherwise wait for many seconds.

The variable `VARIABLE` has the values by module and name, as a JSON object.
"""

import importlib
import json
import os
from typing import Final

VARIABLE: Final = "CONSTANTS_OF_TESTS"


def constants(**values: float) -> dict[str, str]:
    """Return the environment for constants by `KNOWN` names."""
    return {VARIABLE: json.dumps({KNOWN[name]: value for name, value in values.items()})}


_SERVER: Final = "fleethook.cli.serve.uvicorn_server"
KNOWN: Final = {
    "header": f"{_SERVER}.HEADER_SECONDS",
    "request": f"{_SERVER}.REQUEST_SECONDS",
    "write": f"{_SERVER}.WRITE_SECONDS",
    "keep_alive": f"{_SERVER}.KEEP_ALIVE_SECONDS",
    "shutdown": f"{_SERVER}.SHUTDOWN_SECONDS",
    "certificates": "fleethook.cli.serve.serve.CERTIFICATE_SECONDS",
    "stale": "fleethook.cluster.partial_and_stale_objects.STALE_SECONDS",
    "allowed": "fleethook.engines.dispatch.review.access.ALLOWED_SECONDS",
    "refused": "fleethook.engines.dispatch.review.access.REFUSED_SECONDS",
    "absent": "fleethook.cluster.kubernetes.informer_and_backoff.ABSENT_SECONDS",
}
"""The constants by short names."""


def _replace_constants() -> None:
    for path, value in json.loads(os.environ[VARIABLE]).items():
        module, _, name = path.rpartition(".")
        found = importlib.import_module(module)
        assert hasattr(found, name), path
        setattr(found, name, value)


if __name__ == "__main__":
    _replace_constants()
    importlib.import_module("fleethook.__main__").main()
