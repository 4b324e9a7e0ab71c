"""What `beam-agents journal` does: count, show, export and delete what a journal holds."""
