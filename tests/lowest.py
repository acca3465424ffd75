"""The lowest versions that `pyproject.toml` allows, as constraints for pip: see CONTRIBUTING.md.

Of what users install, and of pandas, which must be as old as pyarrow to read its tables: the tools of `dev` are as it
names them, for checks such as ruff's differ between versions.
"""

import re
import tomllib
from pathlib import Path


def lowest() -> list[str]:
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(need for name in extras if name != "dev" for need in extras[name])]
    wanted += [need for need in extras["dev"] if need.startswith("pandas")]
    pairs = [re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", need) for need in wanted]
    return sorted({f"{pair[1]}=={pair[2]}" for pair in pairs if pair})


if __name__ == "__main__":
    print("\n".join(lowest()))
