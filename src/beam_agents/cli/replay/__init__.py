"""What `beam-agents replay` does: one activation once more, from journal and event, offline."""
