"""What every policy shares: its settings and their spelling, and the names of its functions.

A policy's module has its functions and ends with a frozen settings class, which names them (`contract`). See
CONTRIBUTING.md for a worked example.
"""

import hashlib
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, ClassVar, Literal, Self, get_args, get_origin

from clickbandit import policies, registry
from clickbandit.compiling.kernel import is_compiled
from clickbandit.documented import Documented, hints_of
from clickbandit.errors import InputError
from clickbandit.policies.contract import Algorithm, Leaps, Live, Margins
from clickbandit.priors import Prior
from clickbandit.style import COLOURS, DASHES

_LIVE = Live()
_RECORDS = {"algorithm": (Algorithm,), "leaps": (Leaps, Margins, NoneType), "live": (Live,)}
"""What a class says of its functions, and of which type."""


@dataclass(frozen=True)
class Policy(Documented):
    """A policy's settings: the base of every policy's public class."""

    paper: ClassVar[str] = ""
    """Where the algorithm comes from."""
    title: ClassVar[str] = ""
    """Its name in papers, for reports and docs; by default the name of its class."""
    colour: ClassVar[str] = ""
    """How its lines look in charts, such as "blue" or "blue dotted": a colour and dashes of `clickbandit.style`. By
    default it is derived from the policy's name."""
    key: ClassVar[str | None] = None
    """Its name on the command line, if that is not its module's; empty for the base of a family."""
    knows: ClassVar[tuple[str, ...]] = ()
    """What the policy is told beyond the users' clicks: "best_list", "examination", "features" of items, or
    "order", in which the query names them. A setting of the same name tells it too."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "title" not in vars(cls):
            cls.title = cls.__name__
        colour, _, dashes = cls.colour.partition(" ")
        if cls.colour and (colour not in COLOURS or (dashes or "solid") not in DASHES):
            raise InputError(
                f"{cls.__name__}: colour must be one of {', '.join(COLOURS)}, and after a space it may have one of "
                f"{', '.join(DASHES)}, found {cls.colour!r}"
            )

    def __post_init__(self) -> None:
        hints = hints_of(type(self))
        for field in fields(self):
            problem = _misfit(getattr(self, field.name), hints[field.name])
            if problem:
                raise InputError(
                    f"{self.name}: {field.name} must be {problem}, not {getattr(self, field.name)!r}"
                )
            if hints[field.name] is float:  # so that 1 and 1.0 are spelled alike
                object.__setattr__(self, field.name, float(getattr(self, field.name)))
        for name, kinds in _RECORDS.items():
            if not isinstance(getattr(self, name), kinds):
                wanted = " or ".join(f"{kind.__name__}(...)" for kind in kinds if kind is not NoneType)
                raise InputError(f"{self.name}: {name} must be {wanted}, found {getattr(self, name)!r}")

    @property
    def algorithm(self) -> Algorithm:
        """The policy's functions."""
        raise InputError(
            f"{self.name}: its class must name its functions, as in "
            "algorithm = Algorithm(init, memo_size, rank, update, best)"
        )

    @property
    def leaps(self) -> Leaps | Margins | None:
        """What leaps need, if the policy can be leaped over."""
        return None

    @property
    def live(self) -> Live:
        """What the live ranker uses."""
        return _LIVE

    @property
    def name(self) -> str:
        """The policy's name on the command line, without its settings."""
        name = registered.name_of(type(self))
        if name is not None:
            return name
        file = getattr(sys.modules.get(type(self).__module__), "__file__", None)
        return f"{Path(file).name}:{type(self).__name__}" if file else type(self).__name__

    def __str__(self) -> str:
        """The command line's spelling: the name and the settings that are not the default."""
        given = [
            f"{field.name}={_spell(getattr(self, field.name))}"
            for field in fields(self)
            if field.default is MISSING or getattr(self, field.name) != field.default
        ]
        return ":".join([self.name, *([",".join(given)] if given else [])])

    @property
    def needs(self) -> tuple[str, ...]:
        """What the policy must be told because no setting of it says so."""
        return tuple(name for name in self.knows if not getattr(self, name, None))

    @property
    def built_in(self) -> bool:
        """Whether this is a policy of the library, rather than a user's own."""
        return type(self).__module__.startswith(policies.__name__ + ".")

    @property
    def module(self) -> ModuleType:
        """The module with the algorithm's functions."""
        return sys.modules[type(self).__module__]

    @property
    def compiled(self) -> bool:
        """Whether the algorithm is written as kernels; a plain Python policy runs too, only slower."""
        return is_compiled(self.algorithm.rank) and is_compiled(self.algorithm.update)

    def renumbered(self, number_of: Sequence[int]) -> Self:
        """The same policy where item i is called `number_of[i]`; those whose settings name items must say how."""
        return self

    def start(
        self, n_items: int, n_positions: int, *, horizon: int, prior: Prior | None = None, **knowledge: Any
    ) -> Any:
        """The state before the first step; what is told here replaces a setting of the same name."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        state = self.algorithm.init(n_items, n_positions, horizon=horizon, **{**settings, **knowledge})
        if prior is None:
            return state
        self.check_prior(prior, n_items)
        assert self.algorithm.prime is not None
        return self.algorithm.prime(state, prior)

    def check_prior(self, prior: Prior, n_items: int) -> None:
        """Say in one sentence why the policy cannot start from this prior, if it cannot."""
        if not isinstance(prior, Prior):
            raise InputError(
                f"prior must be a Prior, such as Prior.from_order(order), found {type(prior).__name__}"
            )
        if self.algorithm.prime is None:
            raise InputError(
                f"{self.name} cannot start from a prior: leave the prior out, or take a policy that can, such as "
                "click-ts"
            )
        if prior.n_items != n_items:
            raise InputError(
                f"the prior must be of {n_items} items, as many as there are, found {prior.n_items}"
            )


def _misfit(value: object, hint: Any) -> str | None:
    """What a setting of this type should have been, or None where the value fits."""
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        return None if value in choices else " or ".join(map(str, choices))
    if hint is bool:
        return None if isinstance(value, bool) else "true or false"
    if hint is int:
        return None if isinstance(value, int) and not isinstance(value, bool) else "a whole number"
    if hint is float:
        return None if isinstance(value, (int, float)) and not isinstance(value, bool) else "a number"
    if hint is str:
        return None if isinstance(value, str) else "a text"
    return None


def _spell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(text: str, hint: Any) -> object:
    """A setting from the command line; text that does not fit stays text, and the class says what is wrong."""
    if hint is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    for kind in (int, float):
        if hint is kind or (get_origin(hint) is Literal and all(type(c) is kind for c in get_args(hint))):
            try:
                return kind(text)
            except ValueError:
                return text
    return text


registered = registry.Registry(policies, Policy, "policy", lambda module: module.replace("_", "-"))
"""All policies of the library and of packages that bring their own, by their names on the command line."""


def policy_names() -> list[str]:
    """The names of all policies."""
    return registered.names()


def policy_class(name: str) -> type[Policy]:
    """The settings class of a policy, by its name on the command line."""
    return registered.get(name)


budgets: list[Callable[[Policy, float], Policy]] = []
"""How a policy is put within a budget: the module that can has entered it here."""


def parse_policy(text: str) -> Policy:
    """A policy from its spelling: `name`, `name:key=value,key=value`, or `file.py:Class`, with settings or without;
    behind it may stand a budget, as in `click-ts within 0.02`.

    >>> parse_policy("cascade-kl-ucb:feedback=last")
    CascadeKLUCB(feedback='last', budget='log t + 3 log log t')
    """
    explorer, within, loss = text.rpartition(" within ")
    if within:
        policy_names()  # imports all modules
        try:
            share = float(loss)
        except ValueError:
            raise InputError(
                f"policy {text!r}: expected a share such as 0.02 after within, found {loss!r}"
            ) from None
        return budgets[0](parse_policy(explorer.strip()), share)
    from_file = re.fullmatch(r"(?P<file>.+\.py):(?P<name>\w+)(:(?P<settings>.*))?", text)
    if from_file:
        kind = _class_in_file(Path(from_file["file"]), from_file["name"])
        settings = from_file["settings"] or ""
    else:
        name, _, settings = text.partition(":")
        if name.endswith(".py"):
            raise InputError(f"policy {text!r}: say which class of the file, as {name}:MyPolicy")
        kind = policy_class(name)
    hints = hints_of(kind)
    known = [field.name for field in fields(kind)]
    values = {}
    for pair in filter(None, settings.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"policy {text!r}: expected key=value after the colon, found {pair!r}")
        if key not in known:
            hint = registry.suggestion(key, known) if known else "it has none"
            raise InputError(f"policy {text!r}: there is no setting {key!r}: {hint}")
        values[key] = _read(value, hints[key])
    try:
        return kind(**values)
    except TypeError as error:
        raise InputError(f"policy {text!r}: {error}") from error


def _class_in_file(path: Path, name: str) -> type[Policy]:
    """The policy class `name` in a user's own file."""
    if not path.is_file():
        raise InputError(f"the policy file {path} does not exist")
    module = _module_of(path.resolve())
    kind = getattr(module, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Policy)):
        there = registry.suggestion(name, _classes_in(module)) if _classes_in(module) else "it has none"
        raise InputError(
            f"the policy file {path} has no class {name} derived from clickbandit.Policy: {there}"
        )
    return kind


def _classes_in(module: ModuleType) -> list[str]:
    values = vars(module).values()
    return [v.__name__ for v in values if isinstance(v, type) and issubclass(v, Policy) and v is not Policy]


def _module_of(path: Path) -> ModuleType:
    """A user's file, imported once as Python would import a script's neighbour; files of the same name are apart."""
    place = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    module_name = f"clickbandit_user_{re.sub(r'[^0-9a-zA-Z]', '_', path.stem)}_{place}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        raise InputError(f"the policy file {path} cannot be imported: {error}") from error
    finally:
        sys.path.pop(0)
    return module
