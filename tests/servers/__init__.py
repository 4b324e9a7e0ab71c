"""Real servers on loopback that tests run against."""
