"""The command line, `beam-agents`."""

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of `beam-agents`."""
    from beam_agents.cli.app import run_app

    run_app()
