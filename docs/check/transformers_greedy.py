"""Loads a folder that train wrote in transformers, and compares its greedy answers with chat's, token for token, in
float32. Ends with 1 if one differs.

    python docs/check/transformers_greedy.py out "How do I reverse a list?" "Print the numbers from 3 to 7."

torch 2.15.0, transformers 5.23.0, safetensors 0.8.0, jinja2 3.1.6
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

MOST = 160  # tokens of an answer


def main() -> None:
    folder, questions = sys.argv[1], sys.argv[2:] or ["How do I print hello world in python?"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    failed = False
    for question in questions:
        text = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")
        with torch.no_grad():
            out = model.generate(**ids, max_new_tokens=MOST, do_sample=False)
        theirs = tokenizer.decode(out[0, ids["input_ids"].shape[1]:], skip_special_tokens=True)
        with tempfile.TemporaryDirectory() as d:
            log = pathlib.Path(d) / "log.md"
            subprocess.run(["go", "run", "./cmd/chat", "--tuned", folder, "--only", "tuned", "--prompt", question, "--temperature", "0",
                            "--max-tokens", str(MOST), "--dtype", "fp32", "--log", str(log)], check=True, capture_output=True)
            ours = "".join(answer_of(line) for line in log.with_suffix(".jsonl").open())
        same = theirs.strip() == ours.strip()
        failed |= not same
        print("same" if same else "DIFFERENT", "-", question)
        if not same:
            print("transformers:", theirs, "\nchat:", ours)
    sys.exit(failed)


def answer_of(line: str) -> str:
    """The text of an answer, if a line of chat's record is one."""
    event = json.loads(line)
    return event["answer"]["text"] if event["event"] == "answer" else ""


if __name__ == "__main__":
    main()
