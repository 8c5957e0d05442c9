"""The dispatching policies that are installed, those of this package like those of any other.

A package offers a policy class (a subclass of dispatchers.policy.Policy) by an entry point in its pyproject.toml:

    [project.entry-points."loadbalance_testbed.policies"]
    my-policy = "my_package.my_module:MyPolicy"
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

GROUP = "loadbalance_testbed.policies"
_PACKAGE = "loadbalance-testbed"


@runtime_checkable
class PolicyLike(Protocol):
    """What a scenario, and the layers that read one, ask of a policy; dispatchers.policy.Policy describes it."""

    name: ClassVar[str]
    source: ClassVar[str]
    theory: ClassVar[str]
    Parameters: ClassVar[type[Any]]
    idle_reports: ClassVar[bool]
    remembers: ClassVar[bool]
    reserves: ClassVar[bool]
    ties: ClassVar[bool]
    admits: ClassVar[bool]
    rational: ClassVar[bool]

    def __init__(self, parameters: Any, dispatcher: Any) -> None: ...

    @classmethod
    def check(cls, parameters: Any, servers: int) -> None:
        """Raise ValueError for parameters that don't fit the number of servers."""
        ...

    @classmethod
    def check_pools(cls, parameters: Any, pools: Mapping[str, int], types: Sequence[str]) -> None:
        """Raise ValueError for parameters that don't fit the pools and the types of jobs."""
        ...

    @classmethod
    def check_tasks(cls, parameters: Any, servers: int, tasks: int) -> None:
        """Raise ValueError where jobs of that many tasks can't be placed."""
        ...

    @classmethod
    def pool_fractions(
        cls, parameters: Any, pools: Mapping[str, int], types: Sequence[str]
    ) -> list[list[float]] | None:
        """Return the fractions of a type's jobs that go to each pool; None where they are not fixed."""
        ...

    @classmethod
    def copies(cls, parameters: Any) -> int:
        """Return the most copies of a job in the system."""
        ...

    @classmethod
    def mean_probes(cls, parameters: Any, servers: int, tasks: int) -> float:
        """Return the mean number of probes for a job of that many tasks."""
        ...


def _is_policy(thing: object) -> TypeGuard[type[PolicyLike]]:
    return isinstance(thing, type) and isinstance(thing, PolicyLike)


def packages() -> dict[str, str]:
    """Return the version of each installed package that offers policies, by its name."""
    return {point.dist.name: point.dist.version for point in entry_points(group=GROUP) if point.dist is not None}


@cache
def policies() -> dict[str, type[PolicyLike]]:
    """Return all policies by name, in alphabetical order.

    Raises TypeError when an entry point is not a policy or takes a name twice, and RuntimeError when the installed
    metadata lack this package's own policies.
    """
    found: dict[str, type[PolicyLike]] = {}
    complete = False
    for point in entry_points(group=GROUP):
        complete = complete or (point.dist is not None and point.dist.name == _PACKAGE)
        try:
            policy = point.load()
        except Exception as error:  # whatever another package's module does when it is imported
            warnings.warn(f"the policy {point.name!r} of {point.value!r} can't be loaded: {error!r}", stacklevel=2)
            continue
        if not _is_policy(policy):
            raise TypeError(f"entry point {point.name!r} of {point.value!r} is not a dispatchers.policy.Policy")
        if found.get(policy.name, policy) is not policy:
            raise TypeError(f"two policies are called {policy.name!r}: {found[policy.name]!r} and {policy!r}")
        found[policy.name] = policy
    if not complete:
        raise RuntimeError(
            f"the installed {_PACKAGE} lists no dispatching policies: it is not installed, or was before they were "
            "entry points; install it again, in a checkout with: pip install -e ."
        )
    return dict(sorted(found.items()))
