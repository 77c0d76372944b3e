"""Reads a run's event files with the real TensorBoard and prints what it sees as JSON.

python3 -m venv /tmp/tb && /tmp/tb/bin/pip install tensorboard==2.21.0 protobuf==7.36.2 setuptools==65.5.0
/tmp/tb/bin/python docs/check/read_events.py RUN

It reads twice: with the library (EventAccumulator), and through the server, which is started on a free port and asked as
the web page asks it.
"""

import argparse
import json
import pathlib
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util


def from_library(run):
    reader = EventAccumulator(run, size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    tags = reader.Tags()
    texts = {}
    for tag in tags["tensors"]:
        texts[tag] = [[e.step, tensor_util.make_ndarray(e.tensor_proto)[0].decode()] for e in reader.Tensors(tag)]
    return {
        "scalars": {tag: [[e.step, e.value] for e in reader.Scalars(tag)] for tag in tags["scalars"]},
        "texts": texts,
    }


def from_server(run):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    # Each run that TensorBoard knows is a folder below its log folder, "." for that folder itself.
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", "--logdir", run, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def get(path, **query):
        url = f"http://127.0.0.1:{port}/data/plugin/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)

    try:
        tags, before = {}, None
        for _ in range(120):  # it loads in the background: wait until two looks are alike
            time.sleep(0.5)
            try:
                tags = get("scalars/tags")
            except OSError:
                continue
            if tags and tags == before:
                break
            before = tags
        texts = get("text/tags")
        return {
            "scalars": {
                tag: [[step, value] for _, step, value in get("scalars/scalars", run=name, tag=tag)]
                for name, found in tags.items()
                for tag in found
            },
            "texts": {
                tag: [[e["step"], e["text"]] for e in get("text/text", run=name, tag=tag)]
                for name, found in texts.items()
                for tag in found
            },
        }
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a folder with event files, such as out")
    run = parser.parse_args().run
    if not list(pathlib.Path(run).glob("events.out.tfevents.*")):
        sys.exit(f"{run} has no event files")
    json.dump({"library": from_library(run), "server": from_server(run)}, sys.stdout, indent=1)
    print()


main()
