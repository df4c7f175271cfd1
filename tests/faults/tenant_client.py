"""A tenant that sends reviews, in its own process: ``python -m tests.faults.tenant_client``.

Its plan is one line of JSON on standard input. A victim sends ``count`` reviews and writes a report as JSON. An
attacker (no ``count``) writes a line once a request is in progress on each connection and ``ended`` requests are answered.
It continues until its standard input is closed.
"""

import asyncio
import itertools
import json
import ssl
import sys
import time
from collections import Counter
from typing import Any

import aiohttp


class Tenant:
    """The requests of one tenant, and their answers."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.url = f"https://localhost:{plan['port']}{plan['path']}"
        self.requests = itertools.cycle(plan["requests"])
        self.count = plan.get("count")
        self.parallel = plan.get("parallel", 1)
        self.ended = plan.get("ended", 0)
        self.context = ssl.create_default_context(cafile=plan["authority"])
        self.seconds: list[float] = []
        self.verdicts: Counter[str] = Counter()
        self.texts: Counter[str] = Counter()
        self.sent = 0

    async def run(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self.context, limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
            workers = [asyncio.create_task(self.work(session)) for _ in range(self.parallel)]
            if self.count is None:
                await self.attack(workers)
            else:
                await asyncio.gather(*workers)
        report = {"seconds": self.seconds, "verdicts": self.verdicts, "texts": self.texts.most_common(5)}
        sys.stdout.write(json.dumps(report) + "\n")

    async def attack(self, workers: list[asyncio.Task[None]]) -> None:
        while self.sent < self.parallel or len(self.seconds) < self.ended:
            await asyncio.sleep(0.01)
        sys.stdout.write("attacking\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def work(self, session: aiohttp.ClientSession) -> None:
        while self.count is None or self.sent < self.count:
            self.sent += 1
            await self.ask(session, next(self.requests))

    async def ask(self, session: aiohttp.ClientSession, request: dict[str, Any]) -> None:
        started = time.perf_counter()
        try:
            async with session.post(self.url + request.get("query", ""), json=request["review"]) as response:
                answer = await response.json()
        except aiohttp.ClientError as error:
            self.verdicts["wrongly without an answer"] += 1
            self.texts[type(error).__name__] += 1
            await asyncio.sleep(0.1)
            return
        self.seconds.append(time.perf_counter() - started)
        given = answer.get("response", {})
        verdict = "allowed" if given.get("allowed") else "denied"
        expected = request.get("expected", verdict)
        self.verdicts[verdict if verdict == expected else f"wrongly {verdict}"] += 1
        if verdict != expected:
            self.texts[given.get("status", {}).get("message", "")[:300]] += 1


if __name__ == "__main__":
    asyncio.run(Tenant(json.loads(sys.stdin.readline())).run())
