"""A demo that anyone can start: the service on a temporary store, with simulated people, and the page."""

import tempfile
import webbrowser
from functools import partial
from pathlib import Path

from clickbandit.errors import InputError
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.async_ranker import AsyncRanker
from clickbandit.live.demo.api import WINDOW, DemoApi
from clickbandit.live.demo.crowd import DemoArm
from clickbandit.live.demo.queries import HORIZON, POSITIONS
from clickbandit.live.http.server import listen, run
from clickbandit.live.http.service import Service


def run_demo(*, policy: str, versus: str | None, port: int, browser: bool) -> None:
    """Serve until told to stop; then nothing is left of it."""
    print(
        f"clickbandit demo: starting with {policy}{f' and {versus}' if versus else ''}; the first time they are "
        "compiled for this machine, which takes up to half a minute ...",
        flush=True,
    )
    algorithms = Algorithms()  # compiles, and says what is wrong with a policy before anything is begun
    if versus is not None and algorithms.add(versus).name == algorithms.add(policy).name:
        raise InputError(f"--versus must name another policy than --policy, found {versus} twice")
    with (
        listen("127.0.0.1", port) as listener,
        tempfile.TemporaryDirectory(prefix="clickbandit-demo-") as folder,
    ):
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def ready() -> None:
            print(f"clickbandit demo: {url} shows what is learned; Ctrl-C ends it.", flush=True)
            if browser:
                webbrowser.open(url)

        ranker = AsyncRanker(
            f"sqlite:///{Path(folder) / 'demo.db'}",
            policy=policy,
            positions=POSITIONS,
            horizon=HORIZON,
            window=WINDOW,
            holdout=0.05 if versus is None else 0.0,
            retention="10m",
        )
        arms = [DemoArm(policy, ""), *([DemoArm(versus, f" ({versus})")] if versus else [])]
        service = Service(ranker, log_requests=False, api=partial(DemoApi, arms=arms, ready=ready))
        run(service, listener)
