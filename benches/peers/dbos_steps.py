"""A workflow of ten steps in DBOS. Takes lines `steps AT_ONCE ROUNDS` and says steps per second."""

import asyncio
import sys
import time

from dbos import DBOS, DBOSConfig

STEPS = 10


@DBOS.step()
async def step() -> dict:
    return {"done": True}


@DBOS.workflow()
async def steps() -> None:
    for _ in range(STEPS):
        await step()


async def serve() -> None:
    await steps()
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        _, at_once, rounds = line.split()
        begun = time.perf_counter()
        for _ in range(int(rounds)):
            await asyncio.gather(*(steps() for _ in range(int(at_once))))
        took = time.perf_counter() - begun
        print(int(at_once) * int(rounds) * STEPS / took, flush=True)


if __name__ == "__main__":
    config: DBOSConfig = {
        "name": "steps",
        "system_database_url": sys.argv[1],
        "run_admin_server": False,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    asyncio.run(serve())
    DBOS.destroy()
