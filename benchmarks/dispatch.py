"""Measure dispatching: what matching costs among 10, 1,000 and 10,000 hooks, and what a chain costs beside its hooks.

`PYTHONPATH=. python benchmarks/dispatch.py [--rounds N] [--requests N]`. What is compared takes turns within a round (A B C A B C), ratios
are taken within a round, and medians over rounds are printed with their range. Times of matching are CPU time of the process.

The hooks of the chain are in another process, on another core, over TLS on loopback, and answer constant patches. Overhead is read twice:
as time during which no call to a hook was under way, and as all CPU of the dispatching process, HTTP and TLS included. The peer is a
bare aiohttp session that makes the same calls one after the other, with bodies that were encoded before. The unit is `json.loads` and
`json.dumps` of the same review.
"""

import argparse
import asyncio
import base64
import functools
import json
import os
import platform
import random
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import uvloop
from reviews import deployment

from app.api.dispatch import DispatchEndpoint, Standing
from app.asgi import create_app
from app.dispatch.asking import Asking
from app.dispatch.assembly import INDEXES, dispatcher_of
from app.dispatch.call import Deadline
from app.dispatch.configurations import Configurations
from app.dispatch.conversion import Conversion
from app.dispatch.dispatcher import Dispatcher, Outside
from app.dispatch.hook_set import Relevant
from app.dispatch.hooks import EVERY
from app.dispatch.records import Audit
from app.dispatch.rules import match_rules
from app.lifetime import settle_garbage_collector
from app.model.admission import AdmissionReview
from app.outbound.client import HookClient
from app.outbound.trust import trusting
from app.settings import Settings
from app.store import Store
from tests.asgi_client import call
from tests.dispatch.builders import (
    binding,
    configuration,
    export,
    in_cluster,
    namespace,
    request_of,
    review,
    webhook,
    widget,
)
from tests.hook_server import tls

OWNER, CONSUMER = "ws1", "ws3"
SIZES = (10, 1_000, 10_000)
HOOKS = 3
# More requests than a set of hooks remembers, over fewer resources than definitions are remembered of.
RESOURCES, REMEMBERED = 900, 4_096
UNIT = "json.loads and json.dumps"
PHASES = {"mutate": "mutating", "validate": "validating"}


# What there is: an export of Widgets with its hooks in one workspace, bound in another one.


def labelled(**spec):
    """A Widget that all three hooks want."""
    made = widget(**spec)
    made["metadata"]["labels"] = {"app": "shop"}
    return made


def wanted(resources, urls):
    """Three hooks: by an exact rule; by another version and the namespace's labels; by the object's labels and a condition."""
    rules = [
        [{"apiGroups": ["example.org"], "apiVersions": [its_version], "resources": resources, "operations": ["*"]}]
        for its_version in ("v1", "v2", EVERY)
    ]
    condition = "!('system:nodes' in request.userInfo.groups) && object.spec.replicas < 100"
    exact, equivalent, selected = urls
    return [
        webhook("exact.example.org", rules=rules[0], matchPolicy="Exact", clientConfig=exact),
        webhook(
            "equivalent.example.org", rules=rules[1], namespaceSelector={"matchLabels": {"team": "shop"}},
            clientConfig=equivalent,
        ),
        webhook(
            "selected.example.org", rules=rules[2], objectSelector={"matchLabels": {"app": "shop"}},
            matchConditions=[{"name": "few", "expression": condition}], clientConfig=selected,
        ),
    ]  # fmt: skip


def unwanted(number, pick, *, broad):
    """A hook about something else; a broad one is about every resource, but in another operation."""
    rule = {
        "apiGroups": [f"group-{number % 397}.example.com"],
        "apiVersions": pick.choice([["v1"], ["v1beta1", "v1"], [EVERY]]),
        "resources": pick.choice([[f"things{number % 31}"], [f"things{number % 31}", "others/status"], [EVERY]]),
        "operations": pick.choice([["CREATE", "UPDATE"], [EVERY], ["DELETE"]]),
    }
    if broad:
        rule = {"apiGroups": [EVERY], "apiVersions": [EVERY], "resources": ["*/*"], "operations": ["CONNECT"]}
    selector = {"matchExpressions": [{"key": "team", "operator": "In", "values": [f"team-{number % 7}", "shop"]}]}
    members = pick.choice([{}, {"namespaceSelector": selector}, {"objectSelector": selector}])
    return webhook(f"hook-{number}.example.com", "https://hooks.example.com/", rules=[rule], **members)


def configured(hooks, phase):
    """The hooks in configurations of ten."""
    return [
        configuration(OWNER, phase, *hooks[first : first + 10], name=f"config-{first:06}")
        for first in range(0, len(hooks), 10)
    ]


@functools.cache
def exported(count):
    """A schema, a binding and a plural for each of some resources, the first of which are the Widgets.

    All worlds have the same schemas: what is known of one is remembered by its identity, and of 1,024 at a time.
    """
    plurals = ["widgets", *(f"widgets{number}" for number in range(1, count))]
    versions = [{"name": name, "served": True, "subresources": {"status": {}}} for name in ("v1", "v2")]
    made = [
        export(OWNER, *(f"{plural}.example.org" for plural in plurals)),
        namespace(CONSUMER, "default", team="shop"),
    ]
    for plural in plurals:
        resource = f"{plural}.example.org"
        names = {"plural": plural, "kind": plural.title()}
        spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": versions}
        made.append(in_cluster(OWNER, "apis.kcp.io/v1alpha1", "APIResourceSchema", f"v1.{resource}", spec=spec))
        made.append(binding(CONSUMER, OWNER, resource, name=plural))
    return made


def asked(plural="widgets", operation="CREATE", subresource="", name="b", *, namespaced=True, **spec):
    """A review of an object of that plural."""
    document = {**labelled(replicas=3, **spec), "kind": plural.title()}
    document["metadata"]["name"] = name
    if not namespaced:
        del document["metadata"]["namespace"]
    old = document if operation == "UPDATE" else None
    resource = {"group": "example.org", "version": "v1", "resource": plural}
    return review(document, old=old, operation=operation, subResource=subresource, resource=resource)


# Matching.


class Scan:
    """What an apiserver does: each hook in turn; its group is looked at first, which is what most of them fail by."""

    def __init__(self, hooks):
        self.hooks_ = [(hook, frozenset().union(*(rule.groups for rule in hook.rules))) for hook in hooks]

    def hooks(self, _cluster, _phase):
        return self

    def relevant(self, request, kind, equivalents):
        groups = {EVERY, request.resource.group, *(one.resource.group for one in equivalents)}
        return tuple(
            Relevant(hook, invocation)
            for hook, its_groups in self.hooks_
            if not groups.isdisjoint(its_groups)
            and (invocation := match_rules(hook, request, kind, equivalents)) is not None
        )


class World:
    """A number of hooks, three of which are about what is asked."""

    def __init__(self, count, *, resources=("widgets", "widgets/status"), kinds=1, broad=0):
        pick = random.Random(count)
        others = [unwanted(number, pick, broad=number < broad) for number in range(count - HOOKS)]
        three = wanted(list(resources), [{"url": "https://hooks.example.com/"}] * HOOKS)
        middle = len(others) // 2
        self.count = count
        self.configurations = configured(
            [three[0], *others[:middle], three[1], *others[middle:], three[2]], phase="mutating"
        )
        self.store = Store(INDEXES)
        for document in (*exported(kinds), *self.configurations):
            self.store.put(document)
        outside = Outside(ask=None, convert=Conversion(self.store, HookClient(allow_private=True)))
        compiled = Configurations(self.store)
        self.indexed = Dispatcher(self.store, compiled, outside)
        self.scanned = Dispatcher(self.store, Scan(compiled.hooks(OWNER, "mutating").hooks), outside)
        self.changes = 0

    def change(self):
        """Write one configuration anew: something that no hook depends on."""
        self.changes += 1
        first = self.configurations[0]
        metadata = {**first["metadata"], "labels": {"changed": str(self.changes)}}
        self.store.put({**first, "metadata": metadata})


async def match(dispatcher, request):
    """Everything up to the calls themselves; returns how many there would be."""
    target = dispatcher.target(request, cluster=CONSUMER, phase="mutating")
    means = await dispatcher.means(target, Deadline(time.monotonic() + 30), Audit(), [])
    asking = Asking(means)
    versioned = [
        await asking.versioned(one, target.attributes)
        for one in target.relevant
        if await asking.is_asked(one, target.attributes)
    ]
    return len(versioned)


async def look_up(dispatcher, request):
    """Who is to be asked, before anybody's selectors and conditions are."""
    return len(dispatcher.target(request, cluster=CONSUMER, phase="mutating").relevant)


async def cpu(dispatcher, reviews, *, measured=match):
    """Microseconds for each of some reviews; their objects are decoded within that, their envelopes before."""
    requests = [request_of(one) for one in reviews]
    started = time.process_time()
    for request in requests:
        assert await measured(dispatcher, request) == HOOKS
    return (time.process_time() - started) / len(requests) * 1e6


class Case(NamedTuple):
    """Worlds by their sizes, and what is asked in them."""

    title: str
    worlds: list[World]
    reviews: list[Any]


class Way(NamedTuple):
    """What is measured of a request."""

    title: str
    measured: Any
    scanned: bool = False

    async def measure(self, world, reviews):
        if self.scanned:
            return await cpu(world.scanned, reviews[:SCANNED], measured=self.measured)
        return await cpu(world.indexed, reviews, measured=self.measured)


WAYS = (Way("", match), Way(", owner and rules only", look_up), Way(", every hook in turn", match, scanned=True))
SCANNED = 30


def cases():
    varied = [
        asked(f"widgets{number or ''}", operation, subresource, f"w-{number}", namespaced=namespaced)
        for namespaced in (True, False)
        for operation, subresource in (("CREATE", ""), ("UPDATE", ""), ("UPDATE", "status"))
        for number in range(RESOURCES)
    ]
    assert len(varied) > REMEMBERED
    every = {"resources": (EVERY, "*/status"), "kinds": RESOURCES}
    return [
        Case("the same again", [World(count) for count in SIZES], [asked()]),
        Case("never the same twice", [World(count, **every) for count in SIZES], varied),
        Case(
            "never the same twice, 1 % of the hooks about every resource",
            [World(count, **every, broad=count // 100) for count in SIZES],
            varied,
        ),
    ]


async def matching(rounds, requests):
    made = cases()
    settle_garbage_collector()
    found: dict[Any, list[float]] = {}
    taken = dict.fromkeys((case.title for case in made), 0)
    for case in made:
        for world in case.worlds:
            # Schemas and conditions are remembered then, and of the hooks what is asked last in the first way round.
            await cpu(world.indexed, case.reviews[-RESOURCES:])
    for _ in range(rounds):
        for case in made:
            for way in WAYS:
                # Each goes on where the one before it has ended, or it would find that one's answers. What looks at
                # every hook remembers nothing: it takes its requests from the others, so that these go all the way
                # round before one of them comes back.
                first = taken[case.title]
                taken[case.title] += 0 if way.scanned else requests
                reviews = [case.reviews[(first + number) % len(case.reviews)] for number in range(requests)]
                for world in case.worlds:
                    spent = await way.measure(world, reviews)
                    found.setdefault((case.title, way.title, world.count), []).append(spent)
        for world in made[0].worlds:
            world.change()
            found.setdefault(world.count, []).append(await cpu(world.indexed, made[0].reviews))
    print_matching(found, [case.title for case in made])
    warm = found[made[0].title, WAYS[0].title, SIZES[0]]
    print("\n| first request after a change of one configuration | ms | us for each hook |\n|---|---|---|")
    for count in SIZES:
        rest = [cold - again for cold, again in zip(found[count], warm, strict=True)]
        print(f"| {count:,} hooks | {spread([one / 1e3 for one in found[count]])} | {spread([one / count for one in rest])} |")  # fmt: skip
    print(flush=True)


def print_matching(found, titles):
    print(
        "| matching one request, us CPU | "
        + " | ".join(f"{count:,} hooks" for count in SIZES)
        + " | **10,000 : 10** | 1,000 : 10 |"
    )
    print("|---|---|---|---|---|---|")
    for title in titles:
        for way in WAYS:
            few, some, many = (found[title, way.title, count] for count in SIZES)
            middle = " | ".join(f"{statistics.median(one):,.1f}" for one in (few, some, many))
            print(f"| {title}{way.title} | {middle} | {ratio(many, few)} | {ratio(some, few)} |")


# Calling.


class Answering(asyncio.Protocol):
    """A hook: the same answer to everybody, but for the uid, which is the first in a review."""

    def connection_made(self, transport):
        self.transport = transport
        self.buffer = b""

    def data_received(self, data):
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]):
            return
        self.buffer = b""
        uid = body.partition(b'"uid":"')[2].partition(b'"')[0]
        _, phase, number = head.split(b"?", 1)[0].split(b"/")
        answer = self.answer(phase == b"mutating", int(number), uid)
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer)
        )

    @staticmethod
    def answer(mutating, number, uid):
        patch = b""
        if mutating:
            text = b'[{"op":"add","path":"/metadata/labels/hook-%d","value":"seen"}]' % number
            patch = b',"patchType":"JSONPatch","patch":"%b"' % base64.b64encode(text)
        return (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"%b","allowed":true%b}}'
            % (uid, patch)
        )


async def serve(directory):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Spans(HookClient):
    """Notes from when to when each call was under way, and what was sent."""

    def __init__(self):
        super().__init__(allow_private=True)
        self.spans = []
        self.sent = []

    async def post(self, endpoint, body, **rest):
        started = time.perf_counter()
        try:
            return await super().post(endpoint, body, **rest)
        finally:
            self.spans.append((started, time.perf_counter()))
            self.sent.append((endpoint.url, body))

    def busy(self):
        """Return seconds during which any call was under way, and forget the calls."""
        assert len(self.spans) == HOOKS
        total, until = 0.0, 0.0
        for started, ended in sorted(self.spans):
            total += max(0.0, ended - max(started, until))
            until = max(until, ended)
        self.spans.clear()
        self.sent.clear()
        return total


class Cost(NamedTuple):
    """Microseconds for each call of a hook."""

    wall: float
    beside: float
    cpu: float


async def cost(one, client, count):
    walls, besides = [], []
    started_cpu = time.process_time()
    for _ in range(count):
        started = time.perf_counter()
        await one()
        walls.append(time.perf_counter() - started)
        besides.append(walls[-1] - client.busy() if client is not None else 0.0)
    spent = (time.process_time() - started_cpu) / count
    return Cost(*(seconds / HOOKS * 1e6 for seconds in (statistics.median(walls), statistics.median(besides), spent)))


async def chains(rounds, dispatches, port, ca_bundle):
    print(
        "| phase | bytes of the review | | ms for all 3 | **beside the calls, us for each** | CPU us for each | more CPU than bare, us for each "
        "| of bare's CPU | CPU of the unit |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    small = asked()
    large = asked(**{name: value for name, value in deployment()["spec"].items() if name != "replicas"})
    async with (
        Spans() as client,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(ca_bundle))) as session,
    ):
        app = create_app(Settings(), log=lambda _: None)
        for document in exported(1):
            app.store.put(document)
        for phase in PHASES.values():
            urls = [
                {"url": f"https://127.0.0.1:{port}/{phase}/{number}", "caBundle": ca_bundle} for number in range(HOOKS)
            ]
            for document in configured(wanted(["widgets"], urls), phase):
                app.store.put(document)
        dispatcher = dispatcher_of(app.store, client, observe=app.metrics.dispatched)
        standing = Standing(dispatcher, app.store, app.synced, lambda: "")
        for verb, phase in PHASES.items():
            path = f"/clusters/{{cluster}}/{verb}"
            app.reviews[path] = DispatchEndpoint(
                path, phase=phase, standing=standing, metrics=app.metrics, body_limit=1 << 23, log=lambda _: None
            )
        async with app.router.lifespan_context(app):
            for verb, phase in PHASES.items():
                for made in (small, large):
                    ways = await ways_of(made, verb, phase, app=app, dispatcher=dispatcher, client=client, bare=session)
                    rest = [
                        {name: await cost(one, seen, dispatches) for name, (one, seen) in ways.items()}
                        | {UNIT: unit(made)}
                        for _ in range(rounds + 1)
                    ][1:]  # the first round opens connections and fills caches
                    print_chain(phase, made, rest)


async def ways_of(made, verb, phase, *, app, dispatcher, client, bare):
    """The same three calls: bare, dispatched, and dispatched by the whole app."""
    text = json.dumps(made).encode()
    decode = msgspec.json.Decoder(AdmissionReview).decode

    async def dispatch():
        deadline = Deadline(time.monotonic() + 30)
        done = await dispatcher.dispatch(decode(text).request, cluster=CONSUMER, phase=phase, deadline=deadline)
        assert done.response.allowed

    async def whole():
        answer = await call(app, f"/clusters/{CONSUMER}/{verb}", text)
        assert b'"allowed":true' in answer.body

    await dispatch()
    sent = list(client.sent)
    client.busy()

    async def plainly():
        for url, body in sent:
            async with bare.post(f"{url}?timeout=10s", data=body, headers={"Content-Type": "application/json"}) as got:
                msgspec.json.decode(await got.read())

    return {
        "bare aiohttp": (plainly, None),
        "Dispatcher.dispatch": (dispatch, client),
        "the whole app": (whole, client),
    }


def print_chain(phase, made, rounds):
    text = json.dumps(made)
    units = [one.pop(UNIT) for one in rounds]
    for name in rounds[0]:
        costs = [one[name] for one in rounds]
        bare = [one["bare aiohttp"] for one in rounds]
        more = [mine.cpu - its.cpu for mine, its in zip(costs, bare, strict=True)]
        beside = "" if name == "bare aiohttp" else f"**{spread([one.beside for one in costs])}**"
        print(
            f"| {phase} | {len(text):,} | {name} | {spread([one.wall * HOOKS / 1e3 for one in costs])} | {beside} "
            f"| {spread([one.cpu for one in costs])} | {spread(more) if beside else ''} "
            f"| {ratio([one.cpu for one in costs], [one.cpu for one in bare])} | {ratio([one.cpu for one in costs], units)} |",
            flush=True,
        )


def unit(made):
    text = json.dumps(made)
    count, started = 0, time.process_time()
    while (spent := time.process_time() - started) < 0.05:
        json.dumps(json.loads(text))
        count += 1
    return spent / count * 1e6


def spread(values):
    digits = 2 if statistics.median(values) < 20 else 0
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def ratio(over, under):
    return spread([one / other for one, other in zip(over, under, strict=True)])


def beside(given):
    """Measure calls with the hooks in another process, on the last core, while this one is on the first."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0]})
    with tempfile.TemporaryDirectory() as name:
        _, ca_bundle = tls(Path(name))
        server = subprocess.Popen(
            [sys.executable, __file__, "--serve", name], stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {cores[-1]}),
        )  # fmt: skip
        try:
            run(chains(given.rounds, given.dispatches, int(server.stdout.readline()), ca_bundle))
        finally:
            server.terminate()
            server.wait()


def run(work):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=400, help="matched in a turn")
    parser.add_argument("--dispatches", type=int, default=100, help="in a turn")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        run(serve(given.serve))
        return
    packages = ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "uvloop", "msgspec"))
    print(f"`python benchmarks/dispatch.py`: Python {platform.python_version()}, {packages}; {given.rounds} rounds; median (range).\n", flush=True)  # fmt: skip
    run(matching(given.rounds, given.requests))
    beside(given)


if __name__ == "__main__":
    main()
