"""The measurements behind the numbers in docs/: ours and the usual way side by side in one run."""
