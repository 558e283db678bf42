"""What runs a coroutine: the fixture `run` has one for each kind of event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

Run: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]
