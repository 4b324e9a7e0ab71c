"""`beam-agents doctor`: what works on this machine, each with a remedy."""
