"""Whether a pipeline can commit by timers: not every runner keeps REAL_TIME timers."""

from __future__ import annotations

import warnings
from typing import Any

from apache_beam.options.pipeline_options import DebugOptions
from apache_beam.transforms.window import GlobalWindows

from beam_agents.activation.config import AgentConfig

__all__ = ["require_timers"]

_INSTEAD = "use commit='bundle', the default"
_UNFIT = {
    "FnApiRunner": "fires them at once and fails when one is set again",
    "BundleBasedDirectRunner": "loses them in silence, and every output with them",
    "SwitchingDirectRunner": "hands pipelines to runners that lose them",
    "DirectRunner": "hands pipelines to runners that lose them",
}
_PORTABLE = ("PortableRunner", "PrismRunner")
_NO_SPLIT = "prism_disable_sdf_split"


def require_timers(pairs: Any, config: AgentConfig) -> None:
    """Raises `ValueError` where `commit="timer"` cannot work, and warns where it was not run."""
    if not isinstance(pairs.windowing.windowfn, GlobalWindows):
        raise ValueError(
            f"commit='timer' needs its input in the global window, not in {pairs.windowing.windowfn}: "
            "put beam.WindowInto behind RunAgent; outputs have their events' times"
        )
    if config.state_ttl_s is not None:
        raise ValueError(f"state_ttl_s is not available with commit='timer': {_INSTEAD}, or leave it out")
    runner = type(pairs.pipeline.runner).__name__
    if runner in _UNFIT:
        raise ValueError(f"commit='timer' needs REAL_TIME timers, and {runner} {_UNFIT[runner]}: {_INSTEAD}")
    if runner not in _PORTABLE:
        warnings.warn(f"commit='timer' was not run on {runner}; it is experimental", stacklevel=4)
    elif _NO_SPLIT not in (pairs.pipeline.options.view_as(DebugOptions).experiments or ()):
        raise ValueError(
            f"commit='timer' is for Prism, and {runner} may be another, such as Beam's Python job server, which fires "
            f"REAL_TIME timers at once: on Prism add --experiments={_NO_SPLIT}, else {_INSTEAD}"
        )
