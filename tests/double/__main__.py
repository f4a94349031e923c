"""`python -m tests.double PORT LOG`: serve on loopback until killed; LOG takes a JSON line a request.

PORT 0 takes a free one; the port is printed as the first line.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from tests.double.server import Double


async def _main(port: int, log: Path, window: int) -> None:
    with log.open("a", encoding="utf-8") as file:
        double = Double(log=file, window=window)
        server = await double.start(port)
        print(double.port, flush=True)  # noqa: T201 - for whoever started it
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.double", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("log", type=Path)
    parser.add_argument("--window", type=int, default=1_000_000, help="tokens before 'prompt is too long'")
    options = parser.parse_args()
    asyncio.run(_main(options.port, options.log, options.window))
