import asyncio

from penstock.client import connect


async def main():
    async with connect("http://localhost:8080", adapter_set="MACHINE") as client:
        async for update in client.subscribe(["here"], ["load"]):
            print(update.item, update.values["load"], flush=True)


asyncio.run(main())
