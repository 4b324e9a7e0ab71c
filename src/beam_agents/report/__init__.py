"""What happened, what it cost, and what it would have cost otherwise: reports over trace events."""
