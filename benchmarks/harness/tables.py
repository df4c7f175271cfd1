"""Markdown tables."""

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.harness.rounds import Round, figure, marked, ratio

NOTE = "Medians over rounds; ratios are by round, with their range."
MARK = (
    "† In that many rounds the server used less than 95 % of its core or the load generator more than 90 %, so the figure is a "
    "lower limit."
)


def table(header: Sequence[str], rows: Iterable[Sequence[object]], *, words: int = 1) -> str:
    """Return a table with numbers in all columns after the first ``words``."""
    lines = [header, [*["---"] * words, *["---:"] * (len(header) - words)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def servers_table(rounds: Sequence[Round], ours: str, *, ratio_title: str = "") -> str:
    """Return the table of servers with the same load, and our requests relative to each."""
    header = [
        "server",
        "requests/s",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "µs CPU / request",
        "MiB",
        ratio_title or f"{ours} : it",
    ]
    rows = []
    for name in rounds[0]:
        of = {key: figure(rounds, name, key).median for key in ("p50_ms", "p99_ms", "p999_ms")}
        rows.append([
            name + mark(rounds, name), f"{figure(rounds, name, 'requests_per_second').median:,.0f}",
            *(f"{value:.2f}" for value in of.values()), f"{figure(rounds, name, 'cpu_us').median:,.0f}",
            f"{figure(rounds, name, 'rss_mib').median:,.0f}",
            "" if name == ours else ratio(rounds, "requests_per_second", ours, name).text(),
        ])  # fmt: skip
    return table(header, rows) + "\n\n" + footnotes(rounds)


def mark(rounds: Sequence[Round], name: str) -> str:
    count = marked(rounds, name)
    return f" †{count}" if count else ""


def footnotes(rounds: Sequence[Round]) -> str:
    """Return the notes below a table of servers."""
    busiest = max(made[name]["client_cpu"] for made in rounds for name in made)
    notes = [NOTE, f"Busiest load generator: {busiest:.0%} of its core."]
    if any(marked(rounds, name) for name in rounds[0]):
        notes.append(MARK)
    return " ".join(notes)


def bullets(texts: Mapping[str, str]) -> str:
    return "\n".join(f"- *{name}*: {text}" for name, text in texts.items())
