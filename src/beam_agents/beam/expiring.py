"""Agents whose keys are forgotten some time after their last event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.utils.timestamp import Duration

from beam_agents.beam.dofn import CELL, AgentDoFn

__all__ = ["ExpiringAgentDoFn"]

_SPEC = TimerSpec("forget", TimeDomain.WATERMARK)
_FORGET = beam.DoFn.TimerParam(_SPEC)


class ExpiringAgentDoFn(AgentDoFn):
    """Like `AgentDoFn`; a watermark timer clears the cell `state_ttl_s` after the key's last event."""

    def process(
        self,
        element: tuple[bytes, Any],
        cell: Any = CELL,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        pane_info: Any = beam.DoFn.PaneInfoParam,
        forget: Any = _FORGET,
    ) -> Iterator[Any]:
        forget.set(timestamp + Duration(seconds=self._config.state_ttl_s or 0))
        yield from super().process(element, cell, window, timestamp, pane_info)

    @on_timer(_SPEC)  # type: ignore[untyped-decorator]
    def forget(self, cell: Any = CELL) -> None:
        """Called by Beam when the watermark is past the time."""
        cell.clear()
