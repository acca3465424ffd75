"""What all tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real queries and logs, which is not part of the project."""
    folder = Path(os.environ.get("CLICKBANDIT_SHARED", Path(__file__).parents[1] / ".." / "shared"))
    if not folder.is_dir():
        pytest.skip("no real data: set CLICKBANDIT_SHARED to the folder that holds queries/ and logs/")
    return folder
