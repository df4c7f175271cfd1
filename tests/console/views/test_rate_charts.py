from app.console.views.rate_charts import Row, build_charts, list_rows
from app.console.views.review_rates import Rates

RATES = Rates([0.0, 60.0], [1.0, 12345.6], [0.001, None], [0.01234, None], {"allowed": [1.0, 0.5]})


def test_charts_have_durations_in_milliseconds() -> None:
    charts = build_charts(RATES)
    assert [one["title"] for one in charts] == ["Reviews per second", "Duration", "Verdicts per second"]
    assert all(one["times"] == [0.0, 60.0] for one in charts)
    assert charts[1]["lines"] == [{"name": "median", "values": [1.0, None]}, {"name": "99 %", "values": [12.34, None]}]
    assert charts[2]["lines"] == [{"name": "allowed", "values": [1.0, 0.5]}]


def test_rows_are_newest_first_with_three_digits() -> None:
    assert list_rows(RATES) == [
        Row("1970-01-01 00:01:00", "12346", "-", "-", ("0.5",)),
        Row("1970-01-01 00:00:00", "1", "1", "12.3", ("1",)),
    ]
