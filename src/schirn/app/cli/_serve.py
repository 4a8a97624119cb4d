"""`schirn serve`: answer requests for tags over HTTP."""

import argparse
import os
import sys

from schirn.app.workflow import is_local_host
from schirn.program.output import note, say

HAS_JSON = False
OPTIONS = """
model MODEL  a file written by schirn fit on a table
--host ADDRESS = 127.0.0.1  address to listen on; 0.0.0.0 for all network interfaces
--port N:port = 8000  port; 0 chooses a free one
--workers N:positive = 1  number of processes
--token TEXT  requests must have the header Authorization: Bearer TEXT (also: SCHIRN_TOKEN)
--max-rows N:positive = 10000  maximum number of rows in a request
--max-bytes BYTES:memory_size = 16M  maximum size of a request
--max-characters N:positive = 2000000  maximum length of all texts of a request together
--timeout SECONDS:positive = 30  maximum time for a request
--start-timeout T:duration = 120s  maximum time for a worker to load the model
--allow-host NAMES  host names to accept without a token, besides localhost and IP addresses,
    separated by commas; * accepts all
--vocabulary FILE  apply the accepted lines to tags before /judge judges them (default: the
    vocabulary of the model)
--implied add|suggest = add  with --vocabulary: add implied tags, or only suggest them
--access-log FILE  write a JSON line for every request to this file; - for stderr
"""


def run(args: argparse.Namespace) -> int:
    """Answer requests for tags over HTTP.

    POST /predict tags rows, POST /judge judges their tags; /health, /metrics (for Prometheus) and
    /openapi.json describe the server. SIGTERM and Ctrl-C stop it once the requests in flight are
    answered. SIGHUP reloads the model file; each open connection gets the answer to its next
    request before it is closed. Workers that die are restarted.

    Examples
    --------
    schirn serve tagger.schirn
    schirn serve tagger.schirn --host 0.0.0.0 --port 8000 --workers 2
    SCHIRN_TOKEN=secret schirn serve tagger.schirn
    """
    from schirn.app.serving import serve

    def announce(address: str) -> None:
        say(f"Serving {args.model} at {address}; Ctrl-C stops the server.")
        sys.stdout.flush()

    names = ["host", "port", "workers", "timeout", "start_timeout", "access_log"]
    names += ["max_rows", "max_bytes", "max_characters"]
    options = {name: getattr(args, name) for name in names}
    options["vocabulary"] = args.vocabulary
    options["add_implied"] = args.implied == "add"
    options["log_json"] = args.log_json
    # An empty token is a mistake, such as a variable that nobody has set; it does not mean none.
    token = os.environ.get("SCHIRN_TOKEN") if args.token is None else args.token
    if token is None and not is_local_host(args.host):
        note(
            f"note: {args.host} can be reached from other machines, and there is no --token: "
            f"anyone there can send requests"
        )
    hosts = [name.strip() for name in (args.allow_host or "").split(",") if name.strip()]
    serve(args.model, **options, token=token, allow_hosts=hosts, ready=announce, tell=note)
    note("stopped; all requests that had arrived were answered")
    return 0
