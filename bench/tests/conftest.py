"""The fixtures of tests/lib."""
from fixtures import *  # noqa: F401,F403
