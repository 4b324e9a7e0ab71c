"""What the command line says when it cannot do what was asked."""

from __future__ import annotations

__all__ = ["Complaint"]


class Complaint(Exception):
    """One sentence for the user: what is wrong, with which value, and what to do. Exit code 2, no traceback."""
