"""What the service says of new queries when it starts: what they start from, and whether that is likely to lose."""

from clickbandit.live.settings import ServiceSettings
from clickbandit.policies.base import Policy, parse_policy
from clickbandit.policies.budget import Within
from clickbandit.policies.given import Given

EARNS_FROM = {
    ("click-ts", False): 10_000,
    ("cts", False): 10_000,
    ("unirank", False): 100_000,
    ("toprank", False): 100_000,
    ("batchrank", False): 1_000_000,
    ("bubblerank", False): 1_000_000,
    ("click-ts", True): 1_000,
    ("cts", True): 10_000,
    ("unirank", True): 10_000,
    ("bubblerank", True): 100_000,
}
"""By policy, and whether it starts from something: after how many impressions of a query, in powers of ten, it had more
clicks than a good order (docs/which-policy.md has the table)."""
MEASURED = 100_000
"""Impressions; beyond these nothing was measured."""
DEFAULT_EARNS_FROM = {False: 10_000, True: 1_000}
"""The earliest of these, for policies that were not measured."""


def start_of(settings: ServiceSettings) -> str:
    """What new queries start from, and what that means for a page that has an order."""
    if _is_told(settings):
        return f"which starts from what is known (--prior {settings.prior})"
    without = "" if _policy(settings).algorithm.prime is None else "without --prior "
    return f"which {without}starts from nothing, and so at first loses clicks against the given order"


def warning_of(settings: ServiceSettings) -> str | None:
    """Where queries are likely to have lost clicks against the given order when they reach their horizon."""
    told, policy = _is_told(settings), _policy(settings)
    earns_from = EARNS_FROM.get((policy.name, told), DEFAULT_EARNS_FROM[told])
    if isinstance(policy, (Given, Within)) or settings.max_loss or settings.horizon >= earns_from:
        return None
    found = f"from some {earns_from:,} on" if earns_from <= MEASURED else f"at no time up to {MEASURED:,}"
    return (
        f"at a horizon of {settings.horizon:,} impressions a query, {policy.name} that starts from "
        f"{'what is known' if told else 'nothing'} is likely to have fewer clicks than a good given order "
        f"(measured: more {found}); consider --policy click-ts --prior given-order, or a budget such as --max-loss 0.02"
    )


def _policy(settings: ServiceSettings) -> Policy:
    return settings.policy if isinstance(settings.policy, Policy) else parse_policy(settings.policy)


def _is_told(settings: ServiceSettings) -> bool:
    return settings.prior != "none" and _policy(settings).algorithm.prime is not None
