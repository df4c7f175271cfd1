"""Short-lived connections: a handshake for each review, with and without session resumption, and its cost by layer."""

from benchmarks.cases.webhook import CONTROLLER_RUNTIME, ECHO, LEAN, OURS
from benchmarks.harness import tls
from benchmarks.harness.goals import at_least
from benchmarks.harness.load import Load
from benchmarks.harness.plots import Bar, bars
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import go, ours, run_servers
from benchmarks.harness.tables import footnotes, mark, table

MEASURED = ("app/fleethook/server", "app/fleethook/cluster/certificates", "app/fleethook/cli")


BARE = "event loop and TLS alone, constant bytes"
HOW = (
    "UPDATE. Each request opens a new connection, 16 at a time, and the server closes it. TLS 1.3 with X25519 only, because Go would "
    "otherwise agree with the load generator on a post-quantum key exchange, which OpenSSL before 3.5 lacks. The load generator "
    "verifies a certificate once and then compares it."
)
FRESH = ("--new-connections", "--curve=x25519")
WAYS = {"full handshake": FRESH, "resumed": (*FRESH, "--resume")}


def run(context: Context) -> Section:
    rows = {
        OURS: ours("fleethook"),
        ECHO: ours("echo"),
        BARE: ours("bare"),
        CONTROLLER_RUNTIME: go(context, "controller-runtime"),
        LEAN: go(context, "lean"),
    }
    body = context.reviews("UPDATE")
    with run_servers(context, rows) as servers:
        found = {
            title: servers.turns(Load(body, options=options), rounds=context.rounds, seconds=context.seconds)
            for title, options in WAYS.items()
        }
    kept = measure_keep_alive(context)
    shares, parts = split_cost(context, found["full handshake"], kept)
    text = [
        HOW,
        *(f"### {title.capitalize()}\n\n{_table(rounds)}" for title, rounds in found.items()),
        f"### Where the time of a new connection goes\n\n{shares}",
    ]
    three = ratio(found["full handshake"], "requests_per_second", OURS, CONTROLLER_RUNTIME)
    goals = [at_least("short-lived connections: requests/s relative to controller-runtime", 2.5, three)]
    bar = [Bar(name, figure(found["full handshake"], name, "requests_per_second"), ours=name == OURS) for name in rows]
    plot = bars("handshakes", "UPDATE, a new connection for each: requests per second on one core", bar)
    return Section(
        "Short-lived connections", "\n\n".join(text), {"rounds": found, "where": parts, "goals": goals}, (plot,)
    )


def measure_keep_alive(context: Context) -> list[Round]:
    """Measure the same review over keep-alive connections, to tell its cost from the cost of a connection."""
    with run_servers(context, {OURS: ours("fleethook"), ECHO: ours("echo")}) as servers:
        return servers.turns(Load(context.reviews("UPDATE")), rounds=context.rounds, seconds=context.seconds)


def split_cost(context: Context, fresh: list[Round], kept: list[Round]) -> tuple[str, dict[str, float]]:
    """Return a table of the cost of a new connection by layer, innermost first, and its figures."""

    def cost(rounds: list[Round], name: str) -> float:
        return figure(rounds, name, "cpu_us").median

    openssl = tls.handshake(context.scratch, context.server_core)
    whole, review = cost(fresh, OURS), cost(kept, OURS)
    crypto = openssl["exchange_us"] + openssl["sign_us"]
    parts = {
        "X25519: a key and the shared secret": openssl["exchange_us"],
        "the signature with the certificate's key (ECDSA P-256)": openssl["sign_us"],
        "the rest of OpenSSL's handshake: messages, key schedule": openssl["server_us"] - crypto,
        "kernel and event loop: accept, reads, writes, close, the connection's objects": cost(fresh, BARE) - openssl["server_us"],
        "uvicorn: its protocol object, timers, the end of the connection": cost(fresh, ECHO) - cost(fresh, BARE),
        "the review itself: over a keep-alive connection, minus a constant answer": review - cost(kept, ECHO),
    }  # fmt: skip
    rest = whole - sum(parts.values())
    lines = [[name, f"{value:.0f}", f"{value / whole:.0%}"] for name, value in parts.items()]
    lines += [
        ["not explained", f"{rest:.0f}", f"{rest / whole:.0%}"],
        ["**a review over a new connection**", f"**{whole:.0f}**", ""],
    ]
    text = (
        f"CPU of our server by layer, innermost first. OpenSSL is measured in memory: {tls.COUNT:,} handshakes on the "
        f"server's core without a socket. The rows below it are differences between servers of the table above. Our server "
        "sends no session tickets and so resumes no session, because an apiserver never uses a ticket. In memory, two tickets for each connection "
        f"(OpenSSL's default) would make a full handshake {openssl['tickets_us']:.0f} µs longer than its {openssl['server_us']:.0f} µs, and a resumed one would "
        f"take {openssl['resumed_us']:.0f} µs. The callback that provides the newest certificate takes {openssl['callback_us']:.0f} µs.\n\n"
    )
    return text + table(["layer", "µs", "share"], lines), {**parts, "not explained": rest, "all": whole, **openssl}


def _table(rounds: list[Round]) -> str:
    header = ["server", "connections/s", "p50 ms", "p99 ms", "µs CPU / connection", "resumed", f"{OURS} : it"]
    lines = [
        [
            name + mark(rounds, name), f"{figure(rounds, name, 'requests_per_second').median:,.0f}",
            *(f"{figure(rounds, name, key).median:.2f}" for key in ("p50_ms", "p99_ms")),
            f"{figure(rounds, name, 'cpu_us').median:,.0f}",
            f"{sum(made[name]['resumed'] for made in rounds) / sum(made[name]['handshakes'] for made in rounds):.0%}",
            "" if name == OURS else ratio(rounds, "requests_per_second", OURS, name).text(),
        ]
        for name in rounds[0]
    ]  # fmt: skip
    return table(header, lines) + "\n\n" + footnotes(rounds)
