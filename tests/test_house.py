"""The rules of the house that no linter has: sizes, names, private modules, and no cycle between modules."""

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
MAX_FILE, MAX_FUNCTION, MAX_PARAMETERS = 400, 60, 7
BY_CONTRACT = {
    "simulate": "the front door: one call says all of a simulation",
    "Problem.__init__": "as simulate",
    "generate_log": "as simulate, for a log",
    "RankerMethods.rank": "the front door of the live ranker: all that a request may say",
    "for_list": "as rank",
    "Client.rank": "as rank",
    "count_log": "as simulate, for what is read of a log",
    "interact": "numba takes longer to unpack a tuple than for a short run",
    "leap": "as interact",
    "pattern_law": "click_models.contract.PatternLaw",
    "enumerate_orders": "click_models.contract.PatternLaw",
    "PatternLaw.__call__": "is that contract",
}
"""Functions of the package that may have more parameters, and why; commands of the command line may too."""
SHARED_NAMES = {
    "State": "every policy names the arrays of its state so, by the contract of policies",
    "Params": "every click model names its parameters so, by the contract of click models",
}
"""Classes of the package that several modules may have, and why."""


def sources(*folders: str) -> list[Path]:
    tracked = subprocess.run(
        ["git", "ls-files", *(f"{folder}/**.py" for folder in folders)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in tracked.stdout.split() if (ROOT / name).exists()]


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions of a file, methods with the name of their class."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + child.name, child
            yield from walk(child, f"{child.name}." if isinstance(child, ast.ClassDef) else prefix)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), "")


@pytest.fixture(autouse=True)
def in_a_checkout() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of the project's files")


def test_no_file_is_too_long() -> None:
    lengths = {
        path: path.read_text(encoding="utf-8").count("\n")
        for path in sources("src", "tests", "docs", "benchmarks", "examples")
    }
    assert len(lengths) > 200
    assert {str(path): n for path, n in lengths.items() if n > MAX_FILE} == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{path}: {name}": size
        for path in sources("src", "tests", "docs", "benchmarks", "examples")
        for name, function in functions(path)
        if (size := length(function)) > MAX_FUNCTION and not is_command(function)
    }
    assert long == {}


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function but for its docstring."""
    documentation = function.body[0] if ast.get_docstring(function) is not None else None
    documented = (documentation.end_lineno or 0) - documentation.lineno + 1 if documentation else 0
    return (function.end_lineno or 0) - function.lineno + 1 - documented


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a command, whose parameters are its options with their help."""
    return any(ast.unparse(decorator).startswith("app.command") for decorator in function.decorator_list)


def test_no_function_has_too_many_parameters() -> None:
    found = set()
    for path in sources("src"):
        for name, function in functions(path):
            given = function.args
            names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            n = len(names) - (names[:1] in (["self"], ["cls"]))
            if n > MAX_PARAMETERS and not is_command(function):
                found.add(name)
    assert found == set(BY_CONTRACT)


def test_no_two_classes_have_the_same_name() -> None:
    found = defaultdict(list)
    for path in sources("src"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED_NAMES:
                found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(found) > 200
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_nothing_imports_a_private_module_of_another_package() -> None:
    graph = grimp.build_graph("clickbandit")
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            package, _, last = imported.rpartition(".")
            if last.startswith("_") and not last.startswith("__"):
                assert f"{module}.".startswith(f"{package}."), f"{module} imports {imported}"


def test_there_is_no_cycle_between_modules() -> None:
    graph = grimp.build_graph("clickbandit")
    left = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    while True:
        leaves = {module for module, imported in left.items() if not imported & left.keys()}
        if not leaves:
            break
        left = {module: imported for module, imported in left.items() if module not in leaves}
    assert left == {}
