"""Writes the parquet files of this folder: python3 make.py (needs pyarrow, pandas, fastparquet and
polars; made with 26.0.1, 3.1.1, 2026.9.0 and 2.1.0).

The same 40 rows in every compression, encoding and page layout that files in the wild have, and some files with
columns that are not plain strings. The rows are made by rows() in parquet_test.go too.
"""
import hashlib
import json
import struct

import fastparquet
import polars
import pyarrow as pa
import pyarrow.parquet as pq

rows = [
    {
        "instruction": f"Write a function that adds {i} to a number.",
        "input": f"n = {i}" if i % 3 == 0 else "",
        "output": f"def add(n):\n    return n + {i}\n",
    }
    for i in range(40)
]
rows[7]["instruction"] = "Grüße aus 東京 🙂: print it."
rows[8]["input"] = None
table = pa.Table.from_pylist(rows)
names = table.column_names


def write(name, t=table, **options):
    pq.write_table(t, name + ".parquet", **options)


for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
    write("codec_" + codec, compression=codec)
write("plain", use_dictionary=False)
write("no_statistics", compression="zstd", write_statistics=False)
polars.from_arrow(table).write_parquet("no_null_count.parquet", statistics={"min": True, "max": True, "null_count": False})
write("delta_byte_array", use_dictionary=False, column_encoding={c: "DELTA_BYTE_ARRAY" for c in names})
write("delta_length_byte_array", use_dictionary=False, column_encoding={c: "DELTA_LENGTH_BYTE_ARRAY" for c in names})
write("pages_v2", data_page_version="2.0", data_page_size=200)
write("row_groups", compression="zstd", row_group_size=17)
write("checksums", compression="zstd", write_page_checksum=True)
required = pa.schema([pa.field(n, pa.string(), nullable=False) for n in names])
write("required", pa.Table.from_pylist([dict(r, input=r["input"] or "") for r in rows], schema=required), compression="zstd")
write("binary", table.cast(pa.schema([(n, pa.binary()) for n in names])), compression="zstd")
write("large_string", table.cast(pa.schema([(n, pa.large_string()) for n in names])), compression="zstd")

few = table.slice(0, 3)
write("nested", few.set_column(2, "output", pa.array([{"text": "a"}] * 3)))
write("list", few.set_column(2, "output", pa.array([["a", "b"]] * 3)))
write("numbers", few.set_column(2, "output", pa.array([1, 2, 3])))
write("decimal", few.set_column(2, "output", pa.array([1, 2, 3]).cast(pa.decimal128(30, 2))))
write("other_columns", few.rename_columns(["title", "body", "label"]))
write("empty", table.slice(0, 0))
write("answers_empty", few.set_column(2, "output", pa.array(["", "", ""])))

# Conversations, as lists of groups and as JSON in a string. What is in them is said again in conversation_test.go.
said = [
    [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Grüße 🙂"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"},
     {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}],
    [{"role": "user", "content": "Say nothing."}, {"role": "assistant", "content": ""}],
]
names_of = {"user": "human", "assistant": "gpt", "system": "system"}
turn = pa.struct([("content", pa.string()), ("role", pa.string())])


def conversations(values, type=turn):
    return pa.table({"prompt": ["x"] * len(values), "messages": pa.array(values, pa.list_(type))})


write("messages", conversations(said * 20), compression="zstd", row_group_size=17, data_page_size=100)
write("messages_v2", conversations(said), data_page_version="2.0")
write("messages_old_lists", conversations(said), use_compliant_nested_type=False)
write("messages_required", conversations(said, pa.struct([pa.field(n, pa.string(), nullable=False) for n in ["role", "content"]])))
write("messages_more_fields", conversations([[dict(m, name=None) for m in c] for c in said], pa.struct([("name", pa.string()), *turn])))
write("messages_text", pa.table({"messages": [json.dumps(c) for c in said]}))
write("messages_empty_list", conversations([*said, []]))
write("messages_null_list", conversations([*said, None]))
write("messages_null_turn", conversations([*said, [None]]))
write("messages_null_content", conversations([*said, [{"role": "user"}]]))
more = pa.struct([*turn, ("tool_calls", pa.list_(pa.string())), ("weight", pa.int64())])
write("messages_nulls", conversations(said, more))
write("messages_tool_calls", conversations([*said, [{"role": "assistant", "content": "", "tool_calls": ["f"]}]], more))
write("messages_weight", conversations([*said, [{"role": "assistant", "content": "a", "weight": 0}]], more))
write("messages_other_fields", conversations([[{"who": "a"}]], pa.struct([("who", pa.string())])))
write("messages_nested_lists", pa.table({"messages": pa.array([[said[0]]], pa.list_(pa.list_(turn)))}))
write("messages_strings", pa.table({"messages": [["a", "b"]]}))
write("messages_struct", pa.table({"messages": [said[0][0]]}))
write("conversations", pa.table({"conversations": [[{"from": names_of[m["role"]], "value": m["content"]} for m in c] for c in said]}))

# Contents in parts. The lines of a content are its parts; the empty one has none.
part = pa.struct([("text", pa.string()), ("type", pa.string())])


def parts(c):
    return [dict(m, content=[{"type": "text", "text": t} for t in m["content"].split("\n") if t]) for m in c]


in_parts = pa.struct([("content", pa.list_(part)), ("role", pa.string())])
lines = [[{"role": "user", "content": "a\nb\nc"}, {"role": "assistant", "content": "d\ne"}], *said]
write("messages_parts", conversations([parts(c) for c in lines], in_parts), data_page_size=64)
write("messages_parts_required", conversations([parts(c) for c in lines], pa.struct([
    pa.field("content", pa.list_(pa.field("element", part, nullable=False)), nullable=False), pa.field("role", pa.string(), nullable=False)])),
    data_page_version="2.0")
write("messages_parts_null", conversations([[*parts(said[0])[:1], {"role": "user"}]], in_parts))
write("messages_parts_image", conversations([[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}]], in_parts))
write("messages_parts_null_part", conversations([[{"role": "user", "content": [None]}]], in_parts))

# A prompt and its completion as lists of messages, and documents of plain text.
write("prompt_completion", pa.table({"prompt": pa.array([c[:-1] for c in said], pa.list_(turn)),
                                     "completion": pa.array([c[-1:] for c in said], pa.list_(turn))}), row_group_size=2)
write("text", pa.table({"id": [0, 1, 2], "text": ["a\nb", "", "<s>c"]}))

# LZ4_RAW in other layouts, among them pages of text that hardly compresses and row groups without a dictionary.
write("lz4_pages", compression="lz4", data_page_version="2.0", data_page_size=200, write_page_checksum=True, row_group_size=17)
write("lz4_plain", compression="lz4", use_dictionary=False, data_page_size=300, write_page_checksum=True)
hashes = [hashlib.sha512(b"%d" % i).hexdigest() for i in range(60)]
write("lz4_text", pa.table({"text": hashes}), compression="lz4", use_dictionary=False)
write("lz4_messages", conversations(said), compression="lz4", data_page_version="2.0")

# The older LZ4, as Hadoop frames it and as others wrote it, and a codec that is not read. fastparquet lays out the file,
# pyarrow compresses, and pyarrow reads it again.
frame = table.to_pandas()


def hadoop(page):
    half = len(page) // 2  # two blocks
    blocks = [page[:half], page[half:]]
    packed = [pa.compress(b, codec="lz4_raw", asbytes=True) for b in blocks]
    return b"".join(struct.pack(">II", len(b), len(p)) + p for b, p in zip(blocks, packed))


for name, codec, pack in [
    ("lz4_hadoop", "LZ4", hadoop),
    ("lz4_block", "LZ4", lambda page: pa.compress(page, codec="lz4_raw", asbytes=True)),
    ("lz4_frame", "LZ4", lambda page: pa.compress(page, codec="lz4", asbytes=True)),
    ("codec_lzo", "LZO", bytes),
]:
    fastparquet.compression.compressions[codec] = lambda page, *_, pack=pack: pack(bytes(page))
    fastparquet.write(name + ".parquet", frame, compression=codec, row_group_offsets=[0, 23], write_index=False)
    if pack not in (bytes,) and name != "lz4_frame":  # pyarrow reads no frames any more
        assert pq.read_table(name + ".parquet").to_pandas().equals(frame)

# Rows with everything that changes what is asked or learned, typed as pyarrow and HF datasets write it.
call = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", pa.struct([
    ("name", pa.string()), ("arguments", pa.struct([("city", pa.string()), ("days", pa.float64()), ("n", pa.int64())]))]))])
message = pa.struct([
    ("role", pa.string()), ("content", pa.string()), ("train", pa.bool_()), ("weight", pa.float64()),
    ("loss_mask", pa.int8()), ("reasoning_content", pa.string()), ("name", pa.string()), ("tool_calls", pa.list_(call))])
called = [{"id": "c1", "type": "function", "function": {"name": "sky", "arguments": {"city": "Malmö", "days": 1.0}}},
          {"id": "c2", "type": "function", "function": {"name": "sea", "arguments": {"n": 2}}}]
rich = pa.table({
    "messages": pa.array([
        [{"role": "user", "content": "a", "name": "Ada"}, {"role": "assistant", "content": "WRONG", "train": False},
         {"role": "user", "content": "b", "weight": 1.0}, {"role": "assistant", "content": "c", "loss_mask": 1,
                                                          "reasoning_content": "t"}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": called}, {"role": "tool", "content": "1"},
         {"role": "assistant", "content": "b", "weight": 0.0}]], pa.list_(message)),
    "tools": pa.array([None, [{"name": "sky", "more": [("k", "v")]}]],
                      pa.list_(pa.struct([("name", pa.string()), ("more", pa.map_(pa.string(), pa.string()))]))),
    "history": pa.array([[["p", "q"]], []], pa.list_(pa.list_(pa.string()))),
    "images": pa.array([[], []], pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))),
    "id": pa.array([1, 2])})
write("rich", rich)
write("rich_picture", rich.set_column(3, "images", pa.array([[], [{"bytes": b"\xff", "path": None}]], rich["images"].type)))
write("bad_answers", few.append_column("label", pa.array([True, None, False])))
