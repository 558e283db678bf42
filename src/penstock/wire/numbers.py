"""Numbers as the text protocols write them."""

from __future__ import annotations


def decimal(number: float, least_digits: int = 0) -> str:
    """A decimal number without exponent, with at least `least_digits` digits after the dot."""
    whole, _, fraction = f"{number:.6f}".rstrip("0").partition(".")
    fraction = fraction.ljust(least_digits, "0")
    return f"{whole}.{fraction}" if fraction else whole
