"""Made-up requests to a service, thousands of them: no answer that `/openapi.json` does not describe.

    python -m tests.live.fuzz                  # 20,000 requests, some 20 minutes
    python -m tests.live.fuzz --cases 2000

schemathesis makes them from the service's own description: what it allows must be taken, what it does not allow must be
refused, and nothing may end in a server error. Three operations may refuse with 422 what their schemas allow, for
these cannot say that a pinned item is one of the items, or which settings a policy has; their descriptions do. That a
query is gone after it was deleted is not checked here, for the next list that is wanted for it makes it anew.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = 20_000
EXCLUDED = ("/v1/stream",)
"""What has no end, and is tested by itself."""
CONFIG = """
[[operations]]
include-path = ["/v1/rank", "/v1/queries/{query}/reset", "/v1/queries/{query}/preview"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "5xx"]
"""
"""For a file schemathesis.toml where it is run."""
_PER_OPERATION = 2.2
"""Requests that schemathesis makes for each example and operation, about."""


def command(url: str, examples: int, seed: int, *more: str) -> list[str]:
    """What is run, for some examples of every operation."""
    program = str(Path(sys.executable).with_name("st"))
    return [
        *(program, "run", f"{url}/openapi.json", "--checks", "all"),
        *("--exclude-checks", "use_after_free"),
        *(word for path in EXCLUDED for word in ("--exclude-path", path)),
        *("--max-examples", str(examples), "--seed", str(seed), "--no-color", *more),
    ]


def made(output: str) -> int:
    """How many requests schemathesis says it has made."""
    return sum(int(n.replace(",", "")) for n in re.findall(r"([\d,]+) generated", output))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=CASES)
    given = parser.parse_args()
    from tests.live.serving import serve

    from clickbandit.live import AsyncRanker
    from clickbandit.live.http.endpoints import ENDPOINTS

    total, seed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/clicks.db"
        with serve(AsyncRanker(url, policy="random", positions=3)) as service:
            Path(folder, "schemathesis.toml").write_text(CONFIG)
            while total < given.cases:
                seed += 1
                left = given.cases - total
                examples = max(5, min(200, round(left / _PER_OPERATION / len(ENDPOINTS))))
                done = subprocess.run(
                    command(service.url, examples, seed),
                    capture_output=True,
                    text=True,
                    cwd=folder,
                    check=False,
                )
                if done.returncode != 0:
                    sys.exit(done.stdout + done.stderr)
                total += made(done.stdout)
                print(f"{total:,} requests, nothing found", flush=True)
            answered, refused, failed = service.service.metrics.answers()
    print(f"{answered:,} answered, {refused:,} of them refused, {failed:,} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
