"""What runs on PyFlink itself is for its own venv: `make flink`."""

from importlib.util import find_spec

ON_PYFLINK = [
    "test_buckets.py",
    "test_complete.py",
    "test_expiring.py",
    "test_function.py",
    "test_resumed.py",
    "test_side_outputs.py",
    "test_stateless.py",
    "test_streams.py",
]
collect_ignore = [] if find_spec("pyflink") else ON_PYFLINK
