"""One agent run, free of any engine."""
