"""`python -m beam_agents.cli` is the same as `beam-agents`."""

from beam_agents.cli import main

main()
