"""Tenants of one server: a provider's webhooks, an attacker and a victim, each in its own process."""

import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.engines.dispatch.builders import WIDGETS, binding, configuration, export, in_cluster, review, webhook, widget
from tests.serving import ROOT, Server, serving, started

RESOURCE = "widgets.example.org"
PROVIDER, ATTACKER, VICTIM = "ws1", "ws2", "ws3"


Objects = Callable[[dict[str, str]], Iterable[dict[str, Any]]]
"""Returns objects for a clientConfig of the attacker's webhook."""


class TenantReport(NamedTuple):
    """The answers to a tenant."""

    milliseconds: list[float]
    verdicts: dict[str, int]
    texts: list[Any]

    @property
    def wrong(self) -> dict[str, int]:
        return {verdict: count for verdict, count in self.verdicts.items() if verdict.startswith("wrongly")}

    def __str__(self) -> str:
        ordered = sorted(self.milliseconds)
        p99 = ordered[int(len(ordered) * 0.99)]
        middle = statistics.median(ordered)
        return f"p50 {middle:.1f} ms, p99 {p99:.1f} ms, maximum {ordered[-1]:.1f} ms, {self.verdicts}"


class TenantServer(NamedTuple):
    """A server and the provider's webhook."""

    server: Server
    manifests: Path

    def write(self, *documents: dict[str, Any]) -> None:
        """Replace the attacker's objects in one step."""
        write(self.manifests / "attacker.yaml", documents)

    def memory(self) -> float:
        """Return the peak memory of the server so far, in MiB."""
        status = Path(f"/proc/{self.server.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def plan(self, cluster: str, *requests: dict[str, Any], route: str = "validate", **rest: Any) -> str:
        plan = {
            "port": self.server.port, "authority": str(self.server.authority),
            "path": f"/clusters/{cluster}/{route}", "requests": requests, **rest,
        }  # fmt: skip
        return json.dumps(plan) + "\n"

    def victim(self, *, count: int = 300, parallel: int = 1, size: int = 0) -> TenantReport:
        """Send the victim's reviews of Widgets with a text of ``size`` bytes; every other Widget is forbidden."""
        text = "x" * size
        requests = (request("allowed", text=text), request("denied", text=text, forbidden=True))
        command = [sys.executable, "-m", "tests.faults.tenant_client"]
        plan = self.plan(VICTIM, *requests, count=count, parallel=parallel)
        done = subprocess.run(command, input=plan, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True)
        return _read_report(done.stdout)

    @contextlib.contextmanager
    def attack(
        self, *requests: dict[str, Any], parallel: int, ended: int = 0, route: str = "validate"
    ) -> Iterator[list[TenantReport]]:
        """Make the attacker repeat requests on ``parallel`` connections until the context ends.

        Args:
            requests: The bodies to send.
            parallel: Number of connections; the context begins once a request is in progress on each.
            ended: Number of requests that must be answered before it begins.
            route: The route to ask.

        Returns:
            A list that gets the attacker's report at the end of the context.
        """
        met: list[TenantReport] = []
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.tenant_client"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(self.plan(ATTACKER, *requests, parallel=parallel, ended=ended, route=route))
            process.stdin.flush()
            assert process.stdout.readline() == "attacking\n"
            yield met
        finally:
            process.stdin.close()
            report = process.stdout.read()
            process.wait()
            if report:
                met.append(_read_report(report))
            process.stdout.close()


def request(expected: str = "", *, query: str = "", kind: str = "Widget", **spec: Any) -> dict[str, Any]:
    document = {**widget(**spec), "kind": kind}
    made = {"review": review(document), "query": query}
    return {**made, "expected": expected} if expected else made


def check_victim(stage: TenantServer, report: TenantReport, attack: str) -> None:
    """Print the victim's latencies and check that every verdict is the webhook's own."""
    print(f"\n{attack}: {report}; memory {stage.memory():.0f} MiB")  # noqa: T201 - figures are for the reader
    assert not report.wrong, report.texts
    assert report.verdicts["allowed"] == report.verdicts["denied"] > 0


def _read_report(text: str) -> TenantReport:
    report = json.loads(text)
    return TenantReport([1000 * seconds for seconds in report["seconds"]], report["verdicts"], report["texts"])


@contextlib.contextmanager
def _run_webhook(directory: Path) -> Iterator[dict[str, str]]:
    """Run a webhook, and return its clientConfig."""
    directory.mkdir()
    command = [sys.executable, "-m", "tests.faults.tenant_webhook", str(directory)]
    with started(command, directory / "webhook.log", r"listens on (\d+)") as (_, port):
        yield {"url": f"https://localhost:{port}", "caBundle": (directory / "ca-bundle").read_text()}


@contextlib.contextmanager
def run_tenant_server(
    directory: Path, *, policy: str = "Fail", seconds: int = 10, hanging: int = 0, hanging_policy: str = "Fail",
    hanging_seconds: int = 10, attackers_objects: Objects | None = None, **environment: str,
) -> Iterator[TenantServer]:  # fmt: skip
    """Run a server for three workspaces.

    ws1 offers Widgets with a webhook. ws2 has ``hanging`` webhooks for its Gadgets, and the objects of ``attackers_objects``.
    """
    with _run_webhook(directory / "provider") as config, _run_webhook(directory / "attacker") as attackers:
        manifests = directory / "manifests"
        manifests.mkdir()
        hook = webhook(clientConfig=config, failurePolicy=policy, timeoutSeconds=seconds)
        gadgets = {**WIDGETS, "resources": ["gadgets"]}
        hangs = [
            webhook(
                f"h{number}.example.org", rules=[gadgets], failurePolicy=hanging_policy,
                clientConfig={**attackers, "url": f"{attackers['url']}/hang/{number}"},
                timeoutSeconds=hanging_seconds,
            )
            for number in range(hanging)
        ]  # fmt: skip
        documents = [
            export(PROVIDER, RESOURCE), configuration(PROVIDER, "validating", hook),
            *(binding(cluster, PROVIDER, RESOURCE) for cluster in (ATTACKER, VICTIM)),
            *([configuration(ATTACKER, "validating", *hangs, name="hangs")] if hangs else []),
            *(in_cluster(cluster, "core.kcp.io/v1alpha1", "LogicalCluster", "cluster", spec={})
              for cluster in (PROVIDER, ATTACKER, VICTIM)),
        ]  # fmt: skip
        write(manifests / "all.yaml", documents)
        write(manifests / "attacker.yaml", attackers_objects(attackers) if attackers_objects else ())
        with serving(
            directory, manifests=manifests, FLEETHOOK_ENGINES='["dispatch"]', FLEETHOOK_LOG_REVIEWS="false",
            **environment,
        ) as server:  # fmt: skip
            yield TenantServer(server, manifests)


def write(path: Path, documents: Iterable[dict[str, Any]]) -> None:
    """Write manifests in one step."""
    new = path.with_suffix(".new")
    new.write_text("\n---\n".join(map(json.dumps, documents)))
    new.rename(path)
