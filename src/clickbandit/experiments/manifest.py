"""The manifest of a folder with results: what is run, with which settings, seeds and versions; and what differs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from clickbandit.errors import InputError, shortened
from clickbandit.experiments.plan import Plan, Unit
from clickbandit.experiments.versions import versions

MANIFEST = "manifest.json"
FORMAT, VERSION = "clickbandit/results", 1
_HASHED = {
    "queries": "queries: other items or click models than expected",
    "plan": "plan: other runs or click models than expected",
}
_MAX_DIFFERENCES = 6
_MAX_LETTERS = 80


def describe(plan: Plan) -> dict[str, Any]:
    """The manifest of a plan."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "settings": dict(plan.settings),
        "units": describe_units([plan.identity(unit) for unit in plan.units]),
        "own policies": plan.own_policies,
        "versions": versions(),
        "queries": plan.input_digest,
        "plan": plan.digest,
    }


def describe_units(identities: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many units there are, and which values each of their fields has, in order of appearance."""
    names = [field.name for field in fields(Unit)]
    if not any("prior" in identity for identity in identities):
        names.remove("prior")  # as in results from before priors existed
    values = {name: list(dict.fromkeys(identity.get(name) for identity in identities)) for name in names}
    return {"number": len(identities), **values}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder, or an error that says why there is none."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder} holds no results: there is no {MANIFEST} in it") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}: give another folder, or --restart") from error
    expected = {"format": FORMAT, "version": VERSION}
    found = {name: manifest.get(name) for name in expected} if isinstance(manifest, dict) else {}
    if expected != found:
        raise InputError(f"{path} must have format {FORMAT} and version {VERSION}, found {_short(found)}")
    missing = [name for name in ("settings", "units", "versions", "queries", "plan") if name not in manifest]
    if missing:
        raise InputError(f"{path} must have {', '.join(missing)}: give another folder, or --restart")
    return dict(manifest)


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Where two manifests differ, an entry each: what was expected, and what was found.

    A hash says nothing to a reader, and that of the plan differs whenever anything does.

    >>> differences({"units": {"steps": [100]}, "plan": "ab"}, {"units": {"steps": [200]}, "plan": "cd"})
    ['steps: expected 100, found 200']
    """
    mine, other = ({name: of[name] for name in of if name not in _HASHED} for of in (expected, found))
    told = _differences(mine, other)
    for name, text in _HASHED.items():
        if expected.get(name) != found.get(name) and not (name == "plan" and told):
            told.append(text)
    return told


def _differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    told = []
    for name in dict.fromkeys([*expected, *found]):
        mine, other = expected.get(name), found.get(name)
        if mine == other:
            continue
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            told += _differences(mine, other)
        else:
            told.append(f"{name}: expected {_short(mine)}, found {_short(other)}")
    return list(dict.fromkeys(told))


def misfits(manifest: Mapping[str, Any], identities: Sequence[Mapping[str, Any]]) -> list[str]:
    """How units that were run differ from those of a manifest."""
    found = describe_units(identities)
    told = []
    for name, expected in manifest["units"].items():
        strange = (
            [value for value in found.get(name, ()) if value not in expected] if name != "number" else []
        )
        if strange:
            told.append(f"{name}: expected {_short(expected)}, found {_short(strange)}")
    return told or [_HASHED["plan"]]


def some(told: Sequence[str]) -> str:
    """Differences in one line, the first few if there are many."""
    rest = len(told) - _MAX_DIFFERENCES
    return "; ".join([*told[:_MAX_DIFFERENCES], *([f"and {rest} more"] if rest > 0 else [])])


def _short(value: Any) -> str:
    """A setting as it may stand in a sentence; lists of one value are that value."""
    if isinstance(value, list) and not any(isinstance(entry, (list, dict)) for entry in value):
        return shortened(" | ".join(map(_text, value)) or "none", _MAX_LETTERS)
    return "none" if value is None else shortened(_text(value), _MAX_LETTERS)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
