"""What runs on PyFlink itself is for its own venv: `make flink`."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("pyflink") else ["test_complete.py", "test_function.py", "test_stateless.py"]
