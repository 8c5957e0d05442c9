"""Checks of arguments that several formulas share."""

from __future__ import annotations


def require_load(load: float) -> None:
    """Raise ValueError unless the load lies in (0, 1)."""
    if not 0 < load < 1:
        raise ValueError(f"load is {load}; a queue with an unlimited buffer needs a load above 0 and below 1")


def require_count(name: str, value: float) -> None:
    """Raise ValueError unless a number of servers, places and so on is an integer of at least 1."""
    if not (float(value).is_integer() and value >= 1):
        raise ValueError(f"{name} is {value}; give an integer of at least 1")
