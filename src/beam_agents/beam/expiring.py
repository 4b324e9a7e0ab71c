"""Agents whose keys are forgotten some time after their last event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_agents.beam.dofn import CELL, AgentDoFn

__all__ = ["ExpiringAgentDoFn"]

_SPEC = TimerSpec("forget", TimeDomain.WATERMARK)
_FORGET = beam.DoFn.TimerParam(_SPEC)
_LATEST = beam.DoFn.StateParam(ReadModifyWriteStateSpec("latest", VarIntCoder()))


class ExpiringAgentDoFn(AgentDoFn):
    """Like `AgentDoFn`; a watermark timer clears the cell `state_ttl_s` after the latest of the key's event times."""

    def process(
        self,
        element: tuple[bytes, Any],
        cell: Any = CELL,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        pane_info: Any = beam.DoFn.PaneInfoParam,
        forget: Any = _FORGET,
        latest: Any = _LATEST,
    ) -> Iterator[Any]:
        known = latest.read()
        if known is None or timestamp.micros > known:
            latest.write(timestamp.micros)
            forget.set(self._end_of(timestamp.micros))
        yield from super().process(element, cell, window, timestamp, pane_info)

    @on_timer(_SPEC)  # type: ignore[untyped-decorator]
    def forget(self, fired_at: Any = beam.DoFn.TimestampParam, cell: Any = CELL, latest: Any = _LATEST) -> None:
        """Called by Beam when the watermark is past the time; an event of the same bundle may have put it off."""
        known = latest.read()
        if known is None or self._end_of(known) <= fired_at:
            cell.clear()
            latest.clear()

    def _end_of(self, micros: int) -> Timestamp:
        return Timestamp(micros=micros) + Duration(seconds=self._config.state_ttl_s or 0)
