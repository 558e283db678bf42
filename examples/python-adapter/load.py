import asyncio
import os

from penstock.adapters import DataAdapter


class Load(DataAdapter):
    async def subscribe(self, item):
        while self.publisher.wants(item):
            self.update(item, {"load": f"{os.getloadavg()[0]:.2f}"})
            await asyncio.sleep(1)
