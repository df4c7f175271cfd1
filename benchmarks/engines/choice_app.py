"""Our app for servers that import it, with the objects of benchmarks/servers/ours.py.

The environment variable ``FLEETHOOK_BENCH_CERTS`` names the directory of its certificate.
"""

import argparse
import os
from pathlib import Path
from typing import Any

from benchmarks.engines.choice_server import CERTIFICATES, PORT
from benchmarks.servers.ours import app_of

_app = app_of(
    argparse.Namespace(
        name="fleethook", port=0, cert_dir=Path(os.environ[CERTIFICATES]), overriders=0, objects=0, hooks=0
    )
)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer requests, and print the port once the app is up."""
    if scope["type"] != "lifespan":
        await _app(scope, receive, send)
        return

    async def announce(message: Any) -> None:
        await send(message)
        if message["type"] == "lifespan.startup.complete":
            print(f"serving on {os.environ[PORT]}", flush=True)

    await _app(scope, receive, announce)
