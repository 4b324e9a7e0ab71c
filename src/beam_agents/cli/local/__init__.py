"""Model servers on this machine: a real local model, a scripted stand-in, and a proxy that injects faults."""
