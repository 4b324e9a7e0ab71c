"""No limits on what is sent to an endpoint."""

from __future__ import annotations

from beam_agents.ports import LoadControl
from beam_agents.values import TokenUsage

__all__ = ["UNLIMITED"]


class _Unlimited:
    """A `LoadControl` that never waits, and the slot that it gives."""

    def slot(self) -> _Unlimited:
        return self

    def may_retry(self) -> bool:
        return True

    async def __aenter__(self) -> _Unlimited:
        return self

    async def __aexit__(self, *error: object) -> None: ...

    def answered(self, usage: TokenUsage | None) -> None: ...

    def failed(self, error: BaseException) -> None: ...


UNLIMITED: LoadControl = _Unlimited()
"""For a facade without a `load` of its own."""
