"""Puts machine code into a wheel: `python -m clickbandit.prebuild dist/clickbandit-*-py3-none-any.whl`.

Who installs the result compiles nothing for the policies of this package, by steps and by leaps, with CM and PBM, live,
and for reading and fitting logs, with the versions of Python, NumPy and numba that it was built with. With others, and
for other code, kernels are compiled as from any wheel (docs/decisions/0015-machine-code-in-wheels.md).
"""

import argparse
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from clickbandit.compiling.folder import PREBUILT
from clickbandit.compiling.machine_code import ANY_PROCESSOR
from clickbandit.cores import cores

EXTRA_POLICIES = ("batchrank:variant=experiment",)
"""Those that run other code than with their default settings."""
MODELS = ("CM", "PBM")
SESSIONS = 40_000
"""Of a log that is large enough to be scanned."""


def prebuild(wheel: Path, folder: Path, policies: Sequence[str], models: Sequence[str], logs: bool) -> Path:
    """The same wheel with machine code for these, and for logs or not; for this Python and this kind of processor."""
    with tempfile.TemporaryDirectory(prefix="clickbandit-") as scratch:
        site = Path(scratch, "site")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        tasks = [f"compile_policy({policy!r}, {tuple(models)!r})" for policy in policies]
        with ThreadPoolExecutor(cores()) as pool:
            for _ in pool.map(lambda task: _run(task, site), [*["compile_logs()"] * logs, *tasks]):
                pass
        return _pack(site, wheel.name.split("-")[:2], folder)


def _run(task: str, site: Path) -> None:
    """Do something with the unpacked wheel, for a processor with nothing but what all have."""
    name, features = ANY_PROCESSOR
    how = {
        "PYTHONPATH": str(site),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CLICKBANDIT_CACHE": str(site / "clickbandit" / PREBUILT.name),
        "NUMBA_CPU_NAME": name,
        "NUMBA_CPU_FEATURES": features,
    }
    command = [sys.executable, "-c", f"from clickbandit.prebuild import *; {task}"]
    subprocess.run(command, cwd=site.parent, env={**os.environ, **how}, check=True)


def _pack(site: Path, name: Sequence[str], folder: Path) -> Path:
    """A wheel of all files in a folder, which was unpacked from another one."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}-none-{platform}"
    (about,) = site.glob("*.dist-info")
    lines = (about / "WHEEL").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    told = "\n".join([*kept, "Root-Is-Purelib: false", f"Tag: {tag}", ""])
    (about / "WHEEL").write_text(told, encoding="utf-8")
    record = about / "RECORD"
    path = folder / f"{'-'.join(name)}-{tag}.whl"
    entries = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(file for file in site.rglob("*") if file.is_file() and file != record):
            content, place = file.read_bytes(), file.relative_to(site).as_posix()
            archive.writestr(place, content)
            digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            entries.append(f"{place},sha256={digest},{len(content)}\n")
        place = record.relative_to(site).as_posix()
        archive.writestr(place, "".join([*entries, f"{place},,\n"]))
    return path


# --- what is compiled, in a process of its own ----------------------------------------------------------------


def compile_policy(policy: str, models: Sequence[str]) -> None:
    """A policy by steps, by leaps if it can, and live if it can."""
    from clickbandit.errors import InputError
    from clickbandit.live.algorithm import Algorithms
    from clickbandit.policies.base import parse_policy
    from clickbandit.queries import Query, load_queries
    from clickbandit.simulation.run import Problem, Run, missing_knowledge

    settings, query = parse_policy(policy), load_queries("example")[0]
    for model in models:
        users = Query(
            query.query, query.items, {model: query.model(model)}, features=[[1.0]] * len(query.items)
        )
        if not missing_knowledge(settings, query.model(model)):
            for method in ("step", "leap") if settings.leaps else ("step",):
                Run(Problem(settings, users, positions=2, horizon=1000, method=method)).advance(0)
    with suppress(InputError):  # some must be told what only a simulation knows
        Algorithms().add(settings)


def compile_logs() -> None:
    """Writing, reading and evaluating a log, and learning click models from it."""
    from clickbandit.click_models.base import model_names
    from clickbandit.logs import count_log, evaluate, fit, write_realistic_log

    with tempfile.TemporaryDirectory(prefix="clickbandit-") as scratch:
        log = Path(scratch, "log.tsv")
        write_realistic_log(log, sessions=SESSIONS)
        counts = count_log(log, "yandex-relpred")
        evaluate([fit(counts, model) for model in model_names()], counts)
        table = Path(scratch, "log.csv")
        table.write_text("query,list,clicks\nq,a|b,0|1\n", encoding="utf-8")
        count_log(table, "csv")


def main() -> None:
    from clickbandit.policies.base import policy_names

    parser = argparse.ArgumentParser(prog="python -m clickbandit.prebuild", description=__doc__)
    parser.add_argument("wheel", type=Path, help="a wheel without machine code")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="where to write the new one (next to the old one)"
    )
    parser.add_argument("--policy", action="append", help="only this policy, repeatable")
    parser.add_argument("--model", action="append", help="only this click model, repeatable")
    parser.add_argument("--no-logs", action="store_true", help="nothing for click logs")
    given = parser.parse_args()
    policies, models = given.policy or [*policy_names(), *EXTRA_POLICIES], given.model or MODELS
    written = prebuild(given.wheel, given.out or given.wheel.parent, policies, models, logs=not given.no_logs)
    print(f"written: {written}, {written.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
