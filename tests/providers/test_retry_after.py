from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.providers.retry_after import retry_after_ms

AT = "Wed, 21 Oct 2026 07:28:00 GMT"
AT_MS = 1_792_567_680_000


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "1.5"}, 1500),
        ({"retry-after": "0.0001"}, 1),
        ({"retry-after-ms": "1500"}, 1500),
        ({"retry-after-ms": "20.2", "retry-after": "9"}, 21),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9000),
        ({"x-ms-retry-after-ms": "250", "retry-after": "9"}, 250),
        ({"retry-after": " 7 "}, 7000),
        ({"retry-after": "+7"}, 7000),
        ({"retry-after": "7, 7"}, 7000),
        ({"retry-after": "Wed Oct 21 07:28:30 2026", "date": AT}, 30_000),
        ({"retry-after": "0x10"}, None),
        ({"retry-after": ";7"}, None),
        ({"retry-after-ms": "-5", "retry-after": "9"}, 9000),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": AT}, 30_000),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 -0000", "date": AT}, 30_000),
        ({"retry-after": "Wed, 21 Oct 2026 09:28:30 +0200", "date": AT}, 30_000),
        ({"retry-after": "Wednesday, 21-Oct-26 07:28:30 GMT", "date": AT}, 30_000),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": AT}, 0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "yesterday"}, 29_000),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 29_000),
        ({"retry-after": "86400000"}, 86_400_000_000),
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "1e308"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "1_000"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "Foo, 99 Bar 10000 99:99:99 GMT", "date": AT}, None),
        ({"retry-after": "9" * 500}, None),
    ],
)
def test_headers(headers: dict[str, str], expected: float | None):
    assert retry_after_ms(headers, None, AT_MS + 1000) == expected


def retry_info(delay: Any) -> dict[str, Any]:
    kind = "type.googleapis.com/google.rpc."
    return {
        "error": {"details": [{"@type": kind + "QuotaFailure"}, {"@type": kind + "RetryInfo", "retryDelay": delay}]}
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (retry_info("22s"), 22_000),
        (retry_info("1.0005s"), 1001),
        (retry_info({"seconds": 2, "nanos": 500_000_001}), 2501),
        (retry_info({"seconds": "3"}), 3000),
        (retry_info("-3s"), None),
        (retry_info("soon"), None),
        (retry_info(None), None),
        ({"error": {"message": "Rate limit reached. Please try again in 6.5s."}}, 6500),
        ({"error": {"message": "Please try again in 20ms."}}, 20),
        ({"error": {"message": "Please try again in 1m30.2s."}}, 90_200),
        ({"error": {"retry_after": 1.5}}, 1500),
        ({"retry_after_ms": 7.1}, 8),
        ({"error": "try again in 5s"}, 5000),
        ({"error": {"message": "Please retry after 26 seconds."}}, 26_000),
        ({"statusCode": 429, "message": "Rate limit is exceeded. Try again in 12 seconds."}, 12_000),
        ({"detail": "Retry after 2 minutes"}, 120_000),
        ({"error": {"message": "Please try again in 250 milliseconds"}}, 250),
        ({"error": {"message": "Please try again in 2 moons"}}, None),
        ({"error": {"details": [{"retry_delay": {"seconds": 5}}]}}, 5000),
        ({"error": {"details": "RetryInfo"}}, None),
        ([], None),
        ("try again in 5s", None),
    ],
)
def test_bodies(body: Any, expected: float | None):
    assert retry_after_ms({}, body, None) == expected


def test_a_header_wins_over_the_body():
    assert retry_after_ms({"retry-after": "1"}, retry_info("22s"), None) == 1000


def test_a_date_without_any_clock_is_unknown():
    assert retry_after_ms({"retry-after": AT}, None, None) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "details", "retryDelay", "seconds", "nanos", "message", "retry_after"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40), json_values)
def test_it_never_raises_and_never_gives_a_senseless_wait(after: str, ms: str, date: str, body: Any):
    wait = retry_after_ms({"retry-after": after, "retry-after-ms": ms, "date": date}, body, 0)
    assert wait is None or 0 <= wait < float("inf")
