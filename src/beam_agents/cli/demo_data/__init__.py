"""Forty support tickets written for the demo. `desk` is where a person would send the ticket."""
