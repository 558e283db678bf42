"""An adapter set at work: its adapters started and stopped, each with its way into the kernel."""

from __future__ import annotations

from penstock.adapters.api import AdapterSet
from penstock.adapters.publisher import Publisher
from penstock.adapters.runtime import GuardedSource, SetAuthority
from penstock.adapters.server import ServerHandle
from penstock.kernel.kernel import Kernel


class StartFailure(Exception):
    """An adapter cannot be started; the text names it and the reason."""


class RunningSet:
    """Made on the event loop; `start` before the first client, `stop` after the last."""

    def __init__(self, kernel: Kernel, adapter_set: AdapterSet) -> None:
        self.name = adapter_set.name
        self.authority = SetAuthority(adapter_set)
        self._kernel = kernel
        self._set = adapter_set
        self._sources: list[GuardedSource] = []

    async def start(self) -> None:
        """The metadata adapter first, then the data adapters in their order."""
        try:
            self._set.metadata.attach(ServerHandle(self._kernel, self.name))
            await self.authority.start()
        except Exception as error:
            raise StartFailure(f"metadata adapter of set {self.name} failed: {_reason(error)}") from error
        for name, adapter in self._set.data.items():
            source = GuardedSource(self.name, name, adapter)
            feed = self._kernel.add_feed(self.name, name, source)
            try:
                adapter.attach(Publisher(feed, f"{self.name}/{name}"))
                await source.start()
            except Exception as error:
                raise StartFailure(f"data adapter {name} of set {self.name} failed: {_reason(error)}") from error
            self._sources.append(source)

    async def stop(self) -> None:
        for source in self._sources:
            await source.stop()
        await self.authority.stop()


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
