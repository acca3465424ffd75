"""kill -9 at any moment: nothing that was acknowledged is lost, nothing counts twice. See `kill.py`."""

import importlib.util
from pathlib import Path


def test_a_few_kills(url):
    spec = importlib.util.spec_from_file_location("kill", Path(__file__).with_name("kill.py"))
    kill = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kill)
    said = []
    kill.run(url, 2, workers=1 if url.startswith("sqlite:") else 2, say=said.append)
    assert said[-1].endswith("0 lost, 0 double")
