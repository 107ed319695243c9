"""`wenzhen serve`."""

import argparse
from pathlib import Path
from threading import Event

from wenzhen.cli.arguments import Verbs, check_counts


def add_parser(verbs: Verbs) -> None:
    """Declare the verb's arguments."""
    parser = verbs.add_parser(
        "serve",
        help="answer over HTTP with Ray Serve",
        description='Answer over HTTP with Ray Serve (pip install "wenzhen[ray]"): POST /answer with JSON, as\n'
        '{"question": "咳嗽怎么办？", "decoding": "greedy"}, returns the answer as JSON; POST /stream returns it\n'
        "as it grows, a line of JSON each time. Status 400 says what is wrong with a question; 503, that too\n"
        "many wait.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model folder, the same path on all machines")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets other machines ask (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="(default: %(default)s)")
    parser.add_argument("--replicas", type=int, default=1, help="processes with the model (default: 1)")
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        default="local",
        help="serve on a Ray cluster: HOST:PORT, auto for the one that this machine is in, local for one of this "
        "machine alone (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    check_counts(arguments, "port", "replicas")

    from wenzhen.answering.cluster import connected, gpu_share
    from wenzhen.answering.cluster.service import Settings, serving

    with connected(arguments.ray):
        gpus = gpu_share(arguments.replicas)
        settings = Settings(model=str(arguments.model), replicas=arguments.replicas, gpus=gpus)
        with serving(settings, arguments.host, arguments.port) as url:
            print(f"answering at {url}/answer and {url}/stream; Ctrl-C ends it", flush=True)
            Event().wait()
    return 0
