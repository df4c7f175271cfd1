"""Our app under alternative servers: `python -m benchmarks.engines.choice_server NAME --cert-dir DIR`."""

import argparse
import asyncio
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import uvloop

CERTIFICATES, PORT = "FLEETHOOK_BENCH_CERTS", "FLEETHOOK_BENCH_PORT"
GRANIAN_1, GRANIAN_2 = "granian-1", "granian-2"
SECONDS = 10


def _uvicorn(http: str, port: int, directory: Path) -> None:
    import uvicorn  # noqa: PLC0415 - each server has its own process

    from benchmarks.servers.ours import serving_context  # noqa: PLC0415

    context = serving_context(directory)
    listener = _listener(port)
    config = uvicorn.Config(
        "benchmarks.engines.choice_app:app", loop="uvloop", http=http, ws="none", lifespan="on", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, timeout_keep_alive=120, timeout_graceful_shutdown=SECONDS,
        ssl_context_factory=lambda _config, _default: context,
    )  # fmt: skip
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve([listener]))


def _hypercorn(port: int, directory: Path) -> None:
    from hypercorn.asyncio import serve  # noqa: PLC0415
    from hypercorn.config import Config  # noqa: PLC0415

    from benchmarks.engines.choice_app import app  # noqa: PLC0415

    config = Config()
    config.bind = [f"fd://{_listener(port).detach()}"]
    config.certfile, config.keyfile = str(directory / "tls.crt"), str(directory / "tls.key")
    config.keep_alive_timeout, config.graceful_timeout = 120, SECONDS
    config.keep_alive_max_requests = 1 << 30  # by default a connection ends after 1,000

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(app, config, shutdown_trigger=stop.wait)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def _granian(version: str, port: int, directory: Path) -> None:
    from granian import Granian  # noqa: PLC0415
    from granian.constants import HTTPModes, Interfaces, Loops  # noqa: PLC0415

    Granian(
        "benchmarks.engines.choice_app:app", address="127.0.0.1", port=port, interface=Interfaces.ASGI, workers=1,
        runtime_threads=1, loop=Loops.uvloop, http=HTTPModes(version), websockets=False, log_enabled=False,
        ssl_cert=directory / "tls.crt", ssl_key=directory / "tls.key", workers_kill_timeout=SECONDS,
    ).serve()  # fmt: skip


def _listener(port: int) -> socket.socket:
    # The socket listens before the app is up, so that a client that reads the port can connect.
    return socket.create_server(("127.0.0.1", port), backlog=2048)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


SERVERS: dict[str, Callable[[int, Path], None]] = {
    "uvicorn-httptools": lambda port, directory: _uvicorn("httptools", port, directory),
    "uvicorn-h11": lambda port, directory: _uvicorn("h11", port, directory),
    "hypercorn": _hypercorn,
    GRANIAN_1: lambda port, directory: _granian("1", port, directory),
    GRANIAN_2: lambda port, directory: _granian("2", port, directory),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SERVERS)
    parser.add_argument("--cert-dir", type=Path, required=True)
    given = parser.parse_args()
    port = _free_port()
    os.environ[CERTIFICATES], os.environ[PORT] = str(given.cert_dir), str(port)
    SERVERS[given.name](port, given.cert_dir)


if __name__ == "__main__":
    main()
