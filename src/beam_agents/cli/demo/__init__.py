"""`beam-agents demo`: the main job on a real model, with faults, killed, and resumed."""
