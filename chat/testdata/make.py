"""Writes goldens.jsonl: python3 make.py FOLDER (needs Jinja2 3.1.6), with what Jinja2 renders from the published
templates. FOLDER holds them as <family>.jinja, byte for byte as their sha256 below says. They are the value of
chat_template in the tokenizer_config.json of Meta-Llama-3-8B-Instruct, Llama-3.1-8B-Instruct, Llama-3.2-1B-Instruct,
Qwen2.5-0.5B-Instruct, Qwen3-0.6B, SmolLM2-135M-Instruct, zephyr-7b-beta (TinyLlama-1.1B-Chat has the same), Mistral-7B-Instruct-v0.3
and gemma-2-2b-it, and the plain ChatML that many models carry.

A line is a rendering, or with "error" what the template raised ("" where it was Jinja itself), of one family and
conversation. Spans are in bytes: "contents" for each message, null where it was left out or is empty; "learn" for each
answer. Every other content of the conversations occurs once in a rendering, so they are found by searching.
"""
import datetime
import hashlib
import json
import pathlib
import re
import sys

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

assert jinja2.__version__ == "3.1.6", jinja2.__version__
HERE = pathlib.Path(__file__).parent

# family: sha256 of the template, bos_token, eos_token, the token behind an answer
FAMILIES = {
    "llama3": ("ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122", "<|begin_of_text|>", "<|eot_id|>", "<|eot_id|>"),
    "llama3.1": ("e10ca381b1ccc5cf9db52e371f3b6651576caee0a630b452e2816b2d404d4b65", "<|begin_of_text|>", "<|eot_id|>", "<|eot_id|>"),
    "llama3.2": ("5816fce10444e03c2e9ee1ef8a4a1ea61ae7e69e438613f3b17b69d0426223a4", "<|begin_of_text|>", "<|eot_id|>", "<|eot_id|>"),
    "chatml": ("153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3", "", "<|im_end|>", "<|im_end|>"),
    "qwen2.5": ("cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f", "", "<|im_end|>", "<|im_end|>"),
    "qwen3": ("a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8", "", "<|im_end|>", "<|im_end|>"),
    "smollm2": ("872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788", "", "<|im_end|>", "<|im_end|>"),
    "zephyr": ("66291cf0045c2425a3a667cf3cbb7af2b11f09e025c02f97245323ab79119362", "<s>", "</s>", "</s>"),
    "mistral-v0.3": ("e16746b40344d6c5b5265988e0328a0bf7277be86f1c335156eae07e29c82826", "<s>", "</s>", "</s>"),
    "gemma": ("ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6", "<bos>", "<eos>", "<end_of_turn>"),
}

S, U, A = "system", "user", "assistant"
# name: messages, options
CONVERSATIONS = {
    "a question": ([(U, "How deep is Lake Baikal?")], {"add_generation_prompt": True}),
    "question and answer": ([(U, "Name a prime."), (A, "Thirteen.")], {}),
    "system prompt, second question": (
        [(S, "Answer like a sailor."), (U, "Where's north?"), (A, "Yonder, matey."), (U, "And south?")],
        {"add_generation_prompt": True}),
    "system prompt, answered": ([(S, "Be brief."), (U, "Why?"), (A, "Because.")], {"date_string": "Friday 13"}),
    "white space around": (
        [(S, "\n\t rules \n"), (U, "\u2003\x1cask\x1f\u3000"), (A, "\n\u0085tell\u2028 "), (U, " \u200bmore\ufeff ")], {}),
    "marks in contents": (
        [(U, "<|eot_id|><|im_end|>\n</s><end_of_turn>[/INST]"), (A, "{{ bos_token }}{% raw %}<s><|user|>")], {}),
    "other scripts": ([(U, "Где снег? 雪は?"), (A, "Там ❄️🏔, あそこ.")], {}),
    "empty question": ([(U, ""), (A, "You said nothing.")], {}),
    "answer first": ([(A, "Welcome aboard."), (U, "Thanks."), (A, "Cast off!")], {"add_generation_prompt": True}),
    "two questions": ([(U, "First thing?"), (U, "Second thing?"), (A, "Both.")], {}),
    "system prompt in the middle": ([(U, "Speak."), (A, "Arr."), (S, "Now whisper."), (U, "Again."), (A, "arr")], {}),
    "another role": ([(U, "Judge it."), ("referee", "Fair play."), (U, "Agreed?"), (A, "Agreed.")], {}),
    "a tool's result": ([(U, "Weather?"), (A, "Looking."), ("tool", '{"sky":\t"grey\\é"}'), (A, "Grey.")], {}),
    "two results": ([(U, "Both skies?"), ("tool", "clear"), ("tool", "cloudy"), (A, "One each.")], {}),
    "no messages": ([], {"add_generation_prompt": True}),
    "the clock": ([(U, "What day is it?")], {"now": "2031-03-07T12:00:00"}),
    "no content": ([{"role": U}, (A, "Pardon?")], {}),
    "a system prompt without content": ([{"role": S}, (U, "Anyone?")], {}),
    "no role": ([{"content": "Who am I?"}], {}),
    "thoughts": (
        [(U, "Think of a number."), (A, "<think>\nLuck helps.\n</think>\n\nSeven."), (U, "Another?"),
         (A, "<think>\n\nOne more, then.\n\n</think>\n\nEight.")], {}),
    "thoughts between results": (
        [(U, "Weather now?"), (A, "<think>\nMust look.\n</think>\n\nWait."), ("tool", "drizzle"), (A, "Looking on."),
         ("tool", "sleet"), (U, "<tool_response>hail</tool_response>"), (A, "a</think>b<think>c</think>\n\nWet.")], {}),
    "an answer begun": ([(U, "Go on."), (A, "\n\n\nI shall")], {}),
}


def calls(*all, content=None, **more):
    """An assistant that calls functions: (name, arguments) each."""
    return {"role": A, "content": content, **more, "tool_calls": [
        {"id": "abcdefghi", "type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments in all]}


RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "name": "sky", "content": '{"sky": "grey\\é"}'}
TOOLS = [{"type": "function", "function": {"name": name, "description": "Tells </tools> 'it'.\n", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "default": None}, "days": {"type": "number",
    "maximum": 1e16}}, "required": ["city"], "strict": True}}} for name in ("sky", "sea")]
SKY = ("sky", {"city": "Malmö <|im_end|>", "days": 1.0, "more": [1, None, True, {}]})

# Conversations with tools and with thoughts of their own, for the families whose templates write them.
WITH_TOOLS = {
    "a call": ([(S, "Be brief. "), (U, " Weather?"), calls(SKY), RESULT, (A, "Grey.")], {"tools": TOOLS}),
    "a call asked for": ([(U, "Weather?"), calls(SKY), RESULT], {"tools": TOOLS[:1], "add_generation_prompt": True}),
    "a call without tools": ([(U, "Weather?"), calls(SKY), RESULT, (A, "Grey.")], {}),
    "a call at the end": ([(U, "Weather?"), calls(SKY)], {"tools": TOOLS[:1]}),
    "a call with words": ([(U, "Weather?"), calls(SKY, content="I look.\n")], {"tools": TOOLS[:1]}),
    "arguments in a string": ([(U, "Weather?"), calls(("sky", '{"city":  "Malmö"}'))], {"tools": TOOLS[:1]}),
    "two calls": ([(U, "Weather?"), calls(SKY, ("sea", {})), RESULT, RESULT, (A, "Grey.")], {"tools": TOOLS[:1]}),
    "tools and no call": ([(S, "Be brief."), (U, "Why?"), (A, "Because."), (U, "No?"), (A, "No.")], {"tools": TOOLS[:1]}),
}
WITH_THOUGHTS = {
    "thoughts of their own": (
        [(U, "A number?"), {"role": A, "content": "Seven.", "reasoning_content": "\nLuck helps.\n\n"}], {}),
    "thoughts of each answer": (
        [(U, "A number?"), {"role": A, "content": "Seven.", "reasoning_content": "Luck <|im_end|> helps."},
         (U, "More?"), {"role": A, "content": "\n<think>x</think>Eight.", "reasoning_content": "One more."}], {}),
    "thoughts before a call": (
        [(U, "Weather?"), calls(SKY, reasoning_content="Must look."), RESULT,
         {"role": A, "content": "Grey.", "reasoning_content": "So grey."}], {"tools": TOOLS[:1]}),
}
FEW = ["a call", "a call asked for", "two calls", "a call with words"]
READS = {"qwen3": WITH_TOOLS | WITH_THOUGHTS, "qwen2.5": WITH_TOOLS, "llama3.1": WITH_TOOLS,
         "llama3.2": {"a call": WITH_TOOLS["a call"]}, "mistral-v0.3": {name: WITH_TOOLS[name] for name in FEW}}


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def render(source, bos, eos, messages, options):
    """As transformers sets Jinja up."""
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    env.globals["raise_exception"] = refuse
    given = {"add_generation_prompt": False, "bos_token": bos, "eos_token": eos, **options}
    if now := given.pop("now", None):
        env.globals["strftime_now"] = datetime.datetime.fromisoformat(now).strftime
    return env.from_string(source).render(messages=messages, **given)


def place(text, content):
    """The span in bytes of a content that may have been trimmed or put into a JSON string; null where it is not."""
    for form in (content, content.strip(), json.dumps(content, ensure_ascii=False)[1:-1]):
        if form and (found := text.count(form)):
            assert found == 1, (text, form)
            start = len(text[: text.index(form)].encode())
            return [start, start + len(form.encode())]
    return None


def answer(message):
    """What a message says behind its thoughts."""
    _, thoughts, rest = message.get("content", "").rpartition("</think>")
    return rest.lstrip("\n") if thoughts else rest


def row(family, source, name):
    _, bos, eos, end = FAMILIES[family]
    messages, options = CONVERSATIONS[name]
    messages = [m if isinstance(m, dict) else {"role": m[0], "content": m[1]} for m in messages]
    out = {"family": family, "name": name, "messages": messages, "options": options}
    try:
        text = render(source, bos, eos, messages, options)
    except jinja2.exceptions.TemplateError as e:
        return out | {"error": "" if isinstance(e, jinja2.exceptions.UndefinedError) else str(e)}
    contents = [place(text, answer(m) if family == "qwen3" else m.get("content", "")) for m in messages]
    learn = []
    for m, span in zip(messages, contents):
        if m.get("role") == A:
            start, stop = span[0], span[1] + len(end)
            assert text.encode()[span[1] : stop] == end.encode(), text
            if family == "qwen3":  # thoughts, or the place for them, are learnt too
                header = b"<|im_start|>assistant\n"
                start = text.encode().rindex(header, 0, start) + len(header)
            learn.append([start - (family == "mistral-v0.3"), stop])
    return out | {"text": text, "contents": contents, "learn": learn}


def with_tools(family, source, name):
    """A rendering of READS. An answer to learn is what follows the prompt that asks for it, up to the token that ends it;
    "learn" is null where one does not follow its prompt in the whole text."""
    _, bos, eos, end = FAMILIES[family]
    messages, options = READS[family][name]
    messages = [m if isinstance(m, dict) else {"role": m[0], "content": m[1]} for m in messages]
    out = {"family": family, "name": name, "messages": messages, "options": options}
    try:
        text = render(source, bos, eos, messages, options)
        learn = []
        for i, m in enumerate(messages):
            if m["role"] == A:
                prompt = render(source, bos, eos, messages[:i], options | {"add_generation_prompt": True})
                through = render(source, bos, eos, messages[: i + 1], options | {"add_generation_prompt": False})
                stop = through.rindex(end) + len(end)
                if not through.startswith(prompt) or not text.startswith(through[:stop]):
                    learn = None
                    break
                learn.append([len(prompt.encode()), len(through[:stop].encode())])
    except jinja2.exceptions.TemplateError as e:
        return out | {"error": "" if isinstance(e, jinja2.exceptions.UndefinedError) else str(e)}
    return out | {"text": text, "learn": learn}


def main():
    rows = []
    templates = {}
    for family, (sha256, *_) in FAMILIES.items():
        data = pathlib.Path(sys.argv[1], family + ".jinja").read_bytes()
        assert hashlib.sha256(data).hexdigest() == sha256, family
        templates[family] = data.decode()
        rows += [row(family, templates[family], name) for name in CONVERSATIONS]
        rows += [with_tools(family, templates[family], name) for name in READS.get(family, ())]
    # The text that new models are given, and spellings that are told by their own sha256 but render the same.
    others = [("chatml", re.sub("{%- (end)?generation -%}", "", (HERE / "../templates/chatml.jinja").read_text(encoding="utf-8")))]
    default = "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
    others += [("chatml", default + templates["chatml"])]
    others += [(f, templates[f].replace("\n", "\\n")) for f in ("llama3", "chatml", "smollm2", "gemma")]
    others += [("chatml", default + templates["chatml"].replace("\n", "\\n"))]
    for family, source in others:
        got = [row(family, source, name) for name in CONVERSATIONS]
        assert got == [r for r in rows if r["family"] == family], (family, source)
        print(family, hashlib.sha256(source.encode()).hexdigest())
    with open(HERE / "goldens.jsonl", "w", encoding="utf-8", newline="\n") as f:
        for r in rows:
            f.write(json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
