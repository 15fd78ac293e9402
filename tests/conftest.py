"""The fixtures of tests/lib, for all tests below this folder. bench/tests has the same."""
from fixtures import *  # noqa: F401,F403
