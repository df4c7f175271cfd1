"""Short-lived connections: a handshake for each review, with and without session resumption, and where its time goes."""

from benchmarks.cases.webhook import CONTROLLER_RUNTIME, ECHO, LEAN, OURS
from benchmarks.harness import tls
from benchmarks.harness.field import field, go, ours
from benchmarks.harness.goals import at_least
from benchmarks.harness.load import Load
from benchmarks.harness.plots import Bar, bars
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import footnotes, mark, table

BARE = "event loop and TLS alone, constant bytes"
HOW = (
    "UPDATE, a new connection for each, 16 at a time, closed by the server; TLS 1.3, X25519 only: Go would else agree with the load "
    "generator on a post-quantum exchange, which OpenSSL before 3.5 does not have. The load generator verifies a certificate "
    "once and compares it from then on."
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
    with field(context, rows) as servers:
        found = {
            title: servers.turns(Load(body, options=options), rounds=context.rounds, seconds=context.seconds)
            for title, options in WAYS.items()
        }
    kept = standing(context)
    shares, parts = where(context, found["full handshake"], kept)
    text = [
        HOW,
        *(f"### {title.capitalize()}\n\n{_table(rounds)}" for title, rounds in found.items()),
        f"### Where the time of a new connection goes\n\n{shares}",
    ]
    three = ratio(found["full handshake"], "requests_per_second", OURS, CONTROLLER_RUNTIME)
    goals = [at_least("short-lived connections: requests/s of controller-runtime's", 2.5, three)]
    bar = [Bar(name, figure(found["full handshake"], name, "requests_per_second"), ours=name == OURS) for name in rows]
    plot = bars("handshakes", "UPDATE, a new connection for each: requests per second on one core", bar)
    return Section(
        "Short-lived connections", "\n\n".join(text), {"rounds": found, "where": parts, "goals": goals}, (plot,)
    )


def standing(context: Context) -> list[Round]:
    """Ask over connections that stay: what of the above is the review's and not the connection's."""
    with field(context, {OURS: ours("fleethook"), ECHO: ours("echo")}) as servers:
        return servers.turns(Load(context.reviews("UPDATE")), rounds=context.rounds, seconds=context.seconds)


def where(context: Context, fresh: list[Round], kept: list[Round]) -> tuple[str, dict[str, float]]:
    """Return a table of what a new connection costs our server, from the inside to the outside, and its figures."""

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
        "the review itself, over a connection that stays, less what is constant": review - cost(kept, ECHO),
    }  # fmt: skip
    rest = whole - sum(parts.values())
    lines = [[name, f"{value:.0f}", f"{value / whole:.0%}"] for name, value in parts.items()]
    lines += [
        ["not explained", f"{rest:.0f}", f"{rest / whole:.0%}"],
        ["**a review over a new connection**", f"**{whole:.0f}**", ""],
    ]
    text = (
        f"CPU of our server, from the inside to the outside. OpenSSL is measured in memory, {tls.COUNT:,} handshakes on the "
        f"server's core without a socket; the rows below it are differences between servers of the table above. Our server "
        "makes no session tickets, as an apiserver never comes back with one, so it resumes nothing. In memory, two tickets for each connection "
        f"(OpenSSL's default) would make a full handshake {openssl['tickets_us']:.0f} µs longer than its {openssl['server_us']:.0f} µs, and a resumed one would "
        f"take {openssl['resumed_us']:.0f} µs. The callback that hands out the newest certificate takes {openssl['callback_us']:.0f} µs.\n\n"
    )
    return text + table(["part", "µs", "of all"], lines), {**parts, "not explained": rest, "all": whole, **openssl}


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
