"""The quota of requests in flight of one logical cluster."""

import pytest

from app.api.quota import FullQuotaError, RequestQuota


def test_a_quota_forgets_consumers_without_requests() -> None:
    quota = RequestQuota(1)
    with quota.hold("ws2"):
        with quota.hold("ws3"), pytest.raises(FullQuotaError), quota.hold("ws2"):
            pass
        assert quota.in_flight == {"ws2": 1}
    with pytest.raises(ZeroDivisionError), quota.hold("ws2"):
        _ = 1 / 0
    assert quota.in_flight == {}
