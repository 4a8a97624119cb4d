"""Load on `schirn serve`: requests per second, latency, memory, and a restart under load.

    python -m benchmarks.serve
    python -m benchmarks.serve --workers 2 --clients 1 300 --seconds 20

A tagger learns from 4,000 product titles. Clients in one other process ask for the tags of single
rows, each on one connection that stays open; all of it happens on this machine. The first line is
the model itself, called in this process without a server. Then one client sends 100 rows at a
time. Last, every worker is replaced, by SIGHUP, while 16 clients go on asking, each request on a
new connection. A request is lost if it has no HTTP answer; answers with status 503 are counted
apart.
"""

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import schirn
from benchmarks.titles import make_titles
from schirn.features import TagPipeline

HEADER = """\
| | requests/s | p50 ms | p99 ms | answered 503 | lost |
|---|--:|--:|--:|--:|--:|"""
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Load:
    """What clients have measured."""

    seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    busy: int = 0
    """Requests that were answered with status 503."""
    lost: int = 0
    """Requests without a whole answer."""

    def line(self, name: str) -> str:
        """Return a line of the table."""
        milliseconds = 1e3 * np.array(self.times)
        median, high = np.quantile(milliseconds, [0.5, 0.99])
        rate = len(self.times) / self.seconds
        return f"| {name} | {rate:,.0f} | {median:.1f} | {high:.1f} | {self.busy} | {self.lost} |"


def request_of(titles: list[str]) -> bytes:
    """Return a whole request for the tags of titles."""
    body = json.dumps({"rows": [{"title": title} for title in titles]}).encode()
    head = (
        "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def ask(connection: Connection, request: bytes) -> int:
    """Send a request, read its whole answer, and return the status."""
    reader, writer = connection
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.I)
    assert length is not None
    await reader.readexactly(int(length[1]))
    return int(head[9:12])


async def client(port: int, requests: list[bytes], end: float, load: Load, reuse: bool) -> None:
    """Ask one request after the other until the end."""
    connection = None
    k = 0
    while time.perf_counter() < end:
        start = time.perf_counter()
        try:
            if connection is None:
                connection = await asyncio.open_connection("127.0.0.1", port)
            status = await ask(connection, requests[k % len(requests)])
        except (OSError, EOFError):
            load.lost += 1
            connection = None
            continue
        load.times.append(time.perf_counter() - start)
        load.busy += status == 503
        assert status in (200, 503), status
        k += 1
        if not reuse or status == 503:
            connection[1].close()
            connection = None
    if connection is not None:
        connection[1].close()


def measure(
    port: int, titles: list[str], *, clients: int, batch: int, seconds: float, reuse: bool = True
) -> Load:
    """Return the measurements of this number of clients."""
    load = Load(seconds)
    starts = range(0, len(titles) - batch, batch)
    requests = [request_of(titles[k : k + batch]) for k in starts]

    async def run() -> None:
        end = time.perf_counter() + seconds
        tasks = []
        for k in range(clients):
            shifted = requests[k % len(requests) :]
            tasks.append(client(port, shifted, end, load, reuse))
        await asyncio.gather(*tasks)

    asyncio.run(run())
    return load


def measure_model(tagger: TagPipeline, titles: list[str], seconds: float) -> Load:
    """Return the times of the model without a server, for single rows."""
    load = Load(seconds)
    end = time.perf_counter() + seconds
    k = 0
    while (start := time.perf_counter()) < end:
        tagger.predict_labels([{"title": titles[k % len(titles)]}])
        load.times.append(time.perf_counter() - start)
        k += 1
    return load


def megabytes(process: int) -> float:
    """Memory of a process and those below it, shared pages counted once."""
    below = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True)
    total = 0
    for each in (process, *map(int, below.stdout.split())):
        text = Path(f"/proc/{each}/smaps_rollup").read_text()
        total += int(re.search(r"^Pss:\s*(\d+)", text, re.M)[1])  # type: ignore[index]
    return total / 1024


def overloads(port: int) -> str:
    """Return the counters of requests that were answered with 503."""

    async def run() -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = (await reader.read()).decode()
        writer.close()
        counts = re.findall(r'schirn_overload_total{reason="(\w+)"} (\d+)', answer)
        return ", ".join(f"{reason} {count}" for reason, count in counts)

    return asyncio.run(run())


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64, 300])
    parser.add_argument("--seconds", type=float, default=8)
    args = parser.parse_args()
    titles = make_titles(5_000, 60, typos=0.05, random_state=1)
    tags = [titles.names_of(row) for row in titles.listed[:4_000]]
    tagger = TagPipeline(text="title").fit({"title": titles.texts[:4_000]}, tags)
    new = titles.texts[4_000:]
    seconds = args.seconds
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "tagger.schirn"))
        schirn.save(tagger, model)
        command = [sys.executable, "-m", "schirn", "serve", model, "--port", "0"]
        command += ["--workers", str(args.workers)]
        print(f"workers: {args.workers}\n\n{HEADER}")
        print(measure_model(tagger, new, seconds).line("the model alone"), flush=True)
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        port = int(re.search(r":(\d+);", server.stdout.readline())[1])  # type: ignore[index]
        for n in args.clients:
            load = measure(port, new, clients=n, batch=1, seconds=seconds)
            print(load.line(f"{n} client{'s' * (n > 1)}"), flush=True)
        load = measure(port, new, clients=1, batch=100, seconds=seconds)
        print(load.line("1 client, 100 rows per request"), flush=True)
        server.send_signal(signal.SIGHUP)
        load = measure(port, new, clients=16, batch=1, seconds=seconds, reuse=False)
        print(load.line("16 clients while all workers are replaced"))
        print(f"\nrequests answered 503, by reason: {overloads(port)}")
        print(f"memory of the server: {megabytes(server.pid):.0f} MB", flush=True)
        server.send_signal(signal.SIGTERM)
        server.wait()
        print(f"exit code after SIGTERM: {server.returncode}")


if __name__ == "__main__":
    main()
