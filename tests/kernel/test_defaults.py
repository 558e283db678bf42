from __future__ import annotations

from dataclasses import fields

from penstock.config import LimitsSection, SessionSection
from penstock.kernel.limits import SessionLimits


def test_the_limits_of_a_kernel_are_those_of_a_server_that_nobody_has_configured() -> None:
    session, limits = SessionSection(), LimitsSection()
    for field in fields(SessionLimits):
        configured = session if hasattr(session, field.name) else limits
        assert field.default == getattr(configured, field.name), field.name
