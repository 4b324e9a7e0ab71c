"""State with a time to live, on Flink's mini cluster. Runs where PyFlink and Java are installed."""

from __future__ import annotations

import pytest

from tests.flink.jobs import lines, run


@pytest.mark.parametrize(("ttl_s", "told"), [(0.3, ["0", "0", "0", "0"]), (60, ["0", "1", "2", "3"])])
def test_a_key_begins_anew_after_its_time_to_live(tmp_path, ttl_s, told):
    run("expiring_job.py", str(ttl_s), str(tmp_path))
    assert sorted(lines(tmp_path)) == told
