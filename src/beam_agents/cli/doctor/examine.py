"""Runs every check and shows what was found."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from beam_agents.cli.doctor.checks import CHECKS
from beam_agents.cli.doctor.findings import Finding, Health, Patient

__all__ = ["examine"]

_SIGNS = {Health.GOOD: "[green]✓[/]", Health.OPTIONAL: "[yellow]–[/]", Health.BAD: "[red]✗[/]"}


def examine(console: Console, patient: Patient) -> int:
    """Show every finding; returns 1 when something that is needed does not work."""
    findings: list[Finding] = []
    for check in CHECKS:
        with console.status("Looking ..."):
            findings += check(patient)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        remedy = f"\n[bold]{escape(finding.remedy)}[/]" if finding.remedy else ""
        table.add_row(_SIGNS[finding.health], finding.part, escape(finding.said) + remedy)
    console.print(table)
    bad = [finding.part for finding in findings if finding.health is Health.BAD]
    console.print(f"[red]Not working: {', '.join(bad)}.[/]" if bad else "[green]All that is needed works.[/]")
    return 1 if bad else 0
