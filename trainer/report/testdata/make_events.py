"""Records events.bin: what TensorBoard's own classes write for the events of TestEventBytes, each a TFRecord.

python3 -m venv /tmp/tb && /tmp/tb/bin/pip install tensorboard==2.21.0 protobuf==7.36.2 setuptools==65.5.0
/tmp/tb/bin/python make_events.py
"""

import pathlib

from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

WALL_TIME = 1.5


def summary(step, value):
    return event_pb2.Event(wall_time=WALL_TIME, step=step, summary=summary_pb2.Summary(value=[value]))


def text(tag, content):
    return summary_pb2.Summary.Value(
        tag=tag,
        metadata=summary_pb2.SummaryMetadata(
            plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="text"),
            data_class=summary_pb2.DATA_CLASS_TENSOR,
        ),
        tensor=tensor_pb2.TensorProto(
            dtype=types_pb2.DT_STRING,
            tensor_shape=tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)]),
            string_val=[content.encode()],
        ),
    )


events = [
    event_pb2.Event(wall_time=WALL_TIME, file_version="brain.Event:2"),
    event_pb2.Event(wall_time=WALL_TIME, step=300, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
    summary(0, summary_pb2.Summary.Value(tag="Train/Loss", simple_value=2.25)),
    summary(1, summary_pb2.Summary.Value(tag="Train/Loss", simple_value=float("nan"))),
    summary(2**40, summary_pb2.Summary.Value(tag="x", simple_value=0.0)),
    summary(128, text("Samples/Response", "Oh joy.\n\n```python\nprint('größe')\n```\n" + "x" * 200)),
    summary(129, text("Samples/Response", "")),
]

with open(pathlib.Path(__file__).with_name("events.bin"), "wb") as file:
    writer = RecordWriter(file)
    for event in events:
        writer.write(event.SerializeToString())
    writer.flush()
