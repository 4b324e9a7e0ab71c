"""Options for local runs, and what local runners need to be told."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence

from apache_beam.options.pipeline_options import PipelineOptions

__all__ = ["PRISM_ARGUMENTS", "disable_state_cache", "local_arguments", "local_options"]

_log = logging.getLogger(__name__)

PRISM_ARGUMENTS = (
    "--runner=PortableRunner",
    "--environment_type=LOOPBACK",
    "--experiments=prism_disable_sdf_split",
)
"""For a Prism that listens: add `--job_endpoint=localhost:PORT`.

Without the experiment Prism splits a slow stateful bundle, and one key can be in two bundles at once.
"""

_STATE_CACHE_MODULE = "apache_beam.runners.portability.fn_api_runner.worker_handlers"
_STATE_CACHE_NAME = "STATE_CACHE_SIZE_MB"


def local_arguments(arguments: Sequence[str] = ()) -> list[str]:
    """`arguments`, with Beam's in-process runner named unless they name a runner themselves.

    Beam's default local runner first tries to download a program, which offline fails or hangs.
    """
    named = any(one == "--runner" or one.startswith("--runner=") for one in arguments)
    return list(arguments) if named else ["--runner=FnApiRunner", *arguments]


def local_options(arguments: Sequence[str] = ()) -> PipelineOptions:
    """Pipeline options for a local run; also turns the state cache off, see `disable_state_cache`."""
    disable_state_cache()
    return PipelineOptions(local_arguments(arguments))


def disable_state_cache() -> bool:
    """Turn off the state cache of Beam's in-process runner for this process; whether that worked.

    The cache measures each value by walking everything it refers to, which makes stateful pipelines many
    times slower, and no option turns it off.
    """
    try:
        module = importlib.import_module(_STATE_CACHE_MODULE)
    except ImportError:
        return False
    if not hasattr(module, _STATE_CACHE_NAME):
        _log.warning("this Beam has no %s.%s: its state cache stays on", _STATE_CACHE_MODULE, _STATE_CACHE_NAME)
        return False
    setattr(module, _STATE_CACHE_NAME, 0)
    return True
