"""Load on `schirn serve`: requests per second, latency, memory, and a restart under load.

    python -m benchmarks.serve
    python -m benchmarks.serve --workers 2 --clients 8 --seconds 20

A tagger learns from 4,000 product titles. Clients in one other process ask for the tags of single
rows and of batches, each request on a new connection. Then every worker is replaced, by SIGHUP,
while they go on asking; a request without a complete answer of status 200 is lost.
"""

import argparse
import http.client
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles

import schirn
from benchmarks.titles import make_titles
from schirn.features import TagPipeline


def ask(port: int, titles: list[str]) -> bool:
    """Whether a request is answered completely."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"rows": [{"title": title} for title in titles]})
    try:
        connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status == 200 and len(json.loads(answer.read())["rows"]) == len(titles)
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()


class Load:
    """Clients that ask one request after the other until `stop`."""

    def __init__(self, port: int, titles: list[str], batch: int, n_clients: int) -> None:
        self.times: list[float] = []
        self.lost = 0
        self._is_over = threading.Event()
        self._args = port, titles, batch
        self._threads = [threading.Thread(target=self._run, args=(k,)) for k in range(n_clients)]
        self._start = time.perf_counter()
        for thread in self._threads:
            thread.start()

    def _run(self, first: int) -> None:
        port, titles, batch = self._args
        i = 97 * first
        while not self._is_over.is_set():
            start = time.perf_counter()
            rows = [titles[(i + k) % len(titles)] for k in range(batch)]
            self.lost += not ask(port, rows)
            self.times.append(time.perf_counter() - start)
            i += batch

    def stop(self) -> str:
        """Stop, and describe the load in cells of a table."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        rate = len(self.times) / (time.perf_counter() - self._start)
        batch = self._args[2]
        p50, p99 = 1e3 * median(self.times), 1e3 * quantiles(self.times, n=100)[98]
        return f"{rate:,.0f} | {rate * batch:,.0f} | {p50:.1f} | {p99:.1f} | {self.lost}"


def megabytes(process: int) -> float:
    """Memory of a process and those below it, shared pages counted once."""
    below = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True)
    total = 0
    for each in (process, *map(int, below.stdout.split())):
        text = Path(f"/proc/{each}/smaps_rollup").read_text()
        total += int(re.search(r"^Pss:\s*(\d+)", text, re.M)[1])  # type: ignore[index]
    return total / 1024


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8)
    args = parser.parse_args()
    titles = make_titles(5_000, 60, typos=0.05, random_state=1)
    tags = [titles.names_of(row) for row in titles.listed[:4_000]]
    tagger = TagPipeline(text="title").fit({"title": titles.texts[:4_000]}, tags)
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "tagger.schirn"))
        schirn.save(tagger, model)
        command = [sys.executable, "-m", "schirn", "serve", model, "--port", "0"]
        command += ["--workers", str(args.workers)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        port = int(re.search(r":(\d+);", server.stdout.readline())[1])  # type: ignore[index]
        new = titles.texts[4_000:]
        print(f"{args.workers} workers, {args.clients} clients, a new connection per request\n")
        print("| | requests/s | rows/s | p50 ms | p99 ms | lost |\n|---|--:|--:|--:|--:|--:|")
        for batch in (1, 100):
            load = Load(port, new, batch, args.clients)
            time.sleep(args.seconds)
            print(f"| {batch} rows per request | {load.stop()} |", flush=True)
        load = Load(port, new, 1, args.clients)
        time.sleep(args.seconds / 4)
        server.send_signal(signal.SIGHUP)
        time.sleep(args.seconds)
        print(f"| all workers replaced meanwhile | {load.stop()} |")
        print(f"\nmemory of the server: {megabytes(server.pid):.0f} MB", flush=True)
        load = Load(port, new, 1, args.clients)
        server.send_signal(signal.SIGTERM)
        server.wait()
        load.stop()
        print(f"exit code after SIGTERM: {server.returncode}")


if __name__ == "__main__":
    main()
