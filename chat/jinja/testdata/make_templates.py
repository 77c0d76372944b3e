#!/usr/bin/env python3
"""Records what transformers renders from templates/*.jinja, with its own settings of Jinja2, and writes templates.jsonl.
Needs transformers and jinja2 (made with 5.24.0 and 3.1.6): python3 make_templates.py

The templates are written for this test. Each has constructs that published ones have, in the same combinations.
Conversations that a template refuses are recorded with the text and type of the error.
"""
import datetime, json, os, sys

from transformers.utils import chat_template_utils

HERE = os.path.dirname(os.path.abspath(__file__))


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 2, 5, 15, 4, 9)


chat_template_utils.datetime = Clock  # what strftime_now asks


def said(role, content, **more):
    return {"role": role, "content": content, **more}


CALL = {"id": "abc123def", "type": "function", "function": {"name": "look_up", "arguments": {"q": "x & <y>", "n": 2.0, "deep": [None, True, {"é": -1}]}}}
TEXT_CALL = {"id": "short", "type": "function", "function": {"name": "now", "arguments": "{\"zone\": \"UTC\"}"}}
TOOLS = [
    {"type": "function", "function": {"name": "look_up", "description": "Looks 'it' up & back.\nTwice.", "parameters": {
        "type": "object", "properties": {
            "q": {"type": "string", "description": "What?", "enum": ["x", "y"], "default": "x"}, "n": {"type": "number"},
            "deep": {"type": "array", "items": {"type": "object", "properties": {"é": {"type": ["integer", "null"]}}, "required": ["é"]}}},
        "required": ["q", "deep"]}}},
    {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}]
PLAIN = [said("system", "Be brief. "), said("user", "What's <|end|>?\n\"é\""), said("assistant", " An end.\n"), said("user", "Why?"),
         said("assistant", "Because.")]
THOUGHTS = [said("user", "1+1?"), said("assistant", "<think>\nAdd them.\n</think>\n\n2"), said("user", "2+2? /no_think"),
            said("assistant", "4", reasoning_content="Again.")]
TALK = {
    "plain": (PLAIN, {}),
    "asked": (PLAIN[:-1], {"add_generation_prompt": True}),
    "no system": (PLAIN[1:3], {}),
    "one question": ([said("user", "You there? https://example.com/a_(b), antidisestablishmentarianism!")], {"add_generation_prompt": True, "date_string": "1 Jan 2020"}),
    "thoughts": (THOUGHTS, {}),
    "thoughts asked": (THOUGHTS[:3], {"add_generation_prompt": True, "enable_thinking": False}),
    "tools": ([said("system", "Use tools. /no_think"), said("user", "Look."), said("assistant", "", tool_calls=[CALL], thinking="Where?"),
               said("tool", "{\"ok\": 1}", tool_call_id="abc123def"), said("tool", "second"), said("assistant", "Found."), said("user", "Thanks.")],
              {"tools": TOOLS, "add_generation_prompt": True}),
    "text arguments": ([said("user", "Time?"), said("assistant", None, tool_calls=[TEXT_CALL, CALL])], {"tools": TOOLS[1:]}),
    "one call": ([said("user", "Time?"), said("assistant", None, tool_calls=[TEXT_CALL]), said("tool", "12:00"), said("assistant", "Noon.")], {}),
    "parts": ([said("user", [{"type": "text", "text": "What is "}, {"type": "image"}, {"type": "video", "video": "v"}, {"type": "text", "text": "this?"}]),
               said("assistant", "A 🙂.")], {"add_vision_id": True}),
    "documents": ([said("user", "Where?", name="Ann"), said("assistant", "In <b>Köln</b>.", name=None), said("user", "When?")],
                  {"documents": [{"title": "T", "text": "a\nb", "id": 7}, {"Doc_ID": 1, "text": "ü"}], "citation_mode": "fast", "add_generation_prompt": True,
                   "reasoning_effort": "high", "model_identity": "You are Ann's."}),
    "wrong order": ([said("user", "a"), said("user", "b"), said("system", "late"), said("critic", "no"), said("assistant", "")], {}),
    "empty": ([], {}),
}

if __name__ == "__main__":
    folder = os.path.join(HERE, "templates")
    with open(os.path.join(HERE, "conversations.jsonl"), "w", encoding="utf-8") as f:
        for name, (messages, options) in TALK.items():
            row = {"name": name, "messages": messages, "options": {"bos_token": "<s>", "eos_token": "</s>", "now": "2024-02-05T15:04:09", **options}}
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    with open(os.path.join(HERE, "templates.jsonl"), "w", encoding="utf-8") as f:
        for file in sorted(os.listdir(folder)):
            template = open(os.path.join(folder, file), encoding="utf-8").read()
            mask = "generation %}" in template or "generation -%}" in template
            for name, (messages, options) in TALK.items():
                row = {"feature": file.removesuffix(".jinja"), "name": name}
                try:
                    texts, spans = chat_template_utils.render_jinja_template(
                        conversations=[json.loads(json.dumps(messages))], chat_template=template, return_assistant_tokens_mask=mask,
                        bos_token="<s>", eos_token="</s>", **options)
                    row["text"] = texts[0]
                    if mask:
                        row["spans_bytes"] = [[len(texts[0][:a].encode()), len(texts[0][:b].encode())] for a, b in spans[0]]
                except Exception as e:
                    row["error"], row["error_type"] = str(e), type(e).__name__
                f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
