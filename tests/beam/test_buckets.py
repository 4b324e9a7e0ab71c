"""The way by Beam's documented interface alone: when it is chosen, and its state."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.beam import RunAgent
from beam_agents.beam.buckets import BucketCellsCoder
from beam_agents.beam.state import CellValue
from beam_agents.beam.versions import needs_official_api
from tests.beam import scripted
from tests.beam.conftest import config


async def _placed(ctx: Any, event: int) -> Any:
    await ctx.complete(f"greet {event}")
    return event, ctx.seq


def test_it_is_chosen_with_a_warning_on_a_version_that_was_not_tested() -> None:
    with pytest.warns(UserWarning, match="was not tested with Apache Beam 2.99.0"):
        assert needs_official_api(None, "2.99.0")


@pytest.mark.parametrize(("asked", "version"), [(True, "2.77.0"), (False, "2.99.0"), (None, "2.77.0")])
def test_otherwise_it_is_chosen_when_asked_for(asked: bool | None, version: str) -> None:
    assert needs_official_api(asked, version) is (asked is True)


@pytest.mark.parametrize("official_api", [True, False, None])
def test_the_flag_reaches_the_pipeline(official_api: bool | None) -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    pipeline | beam.Create([("k", 1)]) | RunAgent(scripted.greeter, config(), official_api=official_api)
    assert any("Bucket" in label for label in pipeline.applied_labels) is (official_api is True)


def test_full_batches_run_before_the_end_and_the_rest_at_it() -> None:
    scripted.answer_all()
    pipeline = beam.Pipeline(runner="FnApiRunner")
    pairs = [(f"k{n % 2}", n) for n in range(9)]
    transform = RunAgent(_placed, config(max_in_flight=2), official_api=True)
    scripted.keep_all(pipeline | beam.Create(pairs) | transform)
    pipeline.run().wait_until_finish()
    assert sorted(scripted.kept["main"]) == [(n, n // 2) for n in range(9)]


@given(st.dictionaries(st.binary(max_size=9), st.builds(CellValue, st.integers(0, 9), st.binary(max_size=9))))
def test_the_cells_of_a_bucket_come_back(cells: dict[bytes, CellValue]) -> None:
    coder = BucketCellsCoder()
    assert coder.decode(coder.encode(cells)) == cells
    assert coder.encode(dict(reversed(cells.items()))) == coder.encode(cells)


@pytest.mark.parametrize("blob", [b"", b"\x02", b"\x01\x00\x00", b"\x01\x00\x00\x00\x05ab", b"\x01\x00\x00\x00\x01k"])
def test_damaged_cells_are_refused(blob: bytes) -> None:
    with pytest.raises(ValueError, match="cells of a bucket"):
        BucketCellsCoder().decode(blob)
