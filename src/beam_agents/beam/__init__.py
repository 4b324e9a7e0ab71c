"""Agents on Apache Beam. The only package that imports it."""

from beam_agents.beam.claims import ClaimLostError
from beam_agents.beam.complete import Complete
from beam_agents.beam.export import ExportTraces, close_exporters
from beam_agents.beam.outputs import AgentOutputs, DeadLetterCoder
from beam_agents.beam.runners import disable_state_cache, local_arguments, local_options
from beam_agents.beam.transform import RunAgent
from beam_agents.beam.versions import TESTED_BEAM_MINORS

__all__ = [
    "TESTED_BEAM_MINORS",
    "AgentOutputs",
    "ClaimLostError",
    "Complete",
    "DeadLetterCoder",
    "ExportTraces",
    "RunAgent",
    "close_exporters",
    "disable_state_cache",
    "local_arguments",
    "local_options",
]
