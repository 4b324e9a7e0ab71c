from __future__ import annotations

from benchmarks.bundle import measure


def test_a_small_bundle_is_measured_with_every_output_at_its_position():
    found = measure("agents", 10, 100)
    assert found["bundles"] == 1
    assert found["mb"] >= 0
    assert measure("empty", 10, 100)["bundles"] == 0
