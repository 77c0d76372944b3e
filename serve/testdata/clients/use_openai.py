# Prints what openai-python makes of a server: BASE_URL and KEY in the environment. See clients_test.go.
import os

import openai
from openai import OpenAI

client = OpenAI(base_url=os.environ["BASE_URL"] + "/v1", api_key=os.environ["KEY"], max_retries=0)
ask = dict(model="starter", messages=[{"role": "user", "content": "How do I reverse a list?"}], seed=0)


def failure(call):
    try:
        call()
        return "no error"
    except openai.APIStatusError as e:
        return f"{e.status_code} {e.code}"


def stream(**more):
    text, reasons, usage = "", [], None
    for chunk in client.chat.completions.create(**ask, stream=True, **more):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
        usage = chunk.usage or usage
    return text, reasons, usage


r = client.chat.completions.create(**ask)
print("chat:", r.choices[0].message.content, r.choices[0].finish_reason, r.usage.completion_tokens)
text, reasons, usage = stream(stream_options={"include_usage": True})
print("stream:", text, *reasons, usage.completion_tokens)
r = client.chat.completions.create(**ask, stop=[" reversed"])
print("stop:", r.choices[0].message.content, r.choices[0].finish_reason)
r = client.chat.completions.create(**ask, n=2, max_tokens=2)
print("two:", *[f"{c.index} {c.message.content} {c.finish_reason}" for c in r.choices])
r = client.chat.completions.create(**ask, max_tokens=2, logprobs=True, top_logprobs=2)
print("logprobs:", *[f"{t.token}|{t.logprob:.3f}|{len(t.top_logprobs)}" for t in r.choices[0].logprobs.content])
with client.chat.completions.stream(**ask, stop=[" reversed"]) as s:
    for _ in s:
        pass
    print("helper:", s.get_final_completion().choices[0].message.content)
r = client.completions.create(model="starter", prompt="One", max_tokens=3, seed=0)
print("text:", r.choices[0].text, r.choices[0].finish_reason)
r = client.responses.create(model="starter", input="Hello", extra_body={"seed": 0})
print("response:", r.output_text, r.status)
with client.responses.stream(model="starter", input="Hello", extra_body={"seed": 0}) as s:
    kinds = [e.type for e in s]
    print("response stream:", s.get_final_response().output_text, kinds[-1])
print("models:", *[m.id for m in client.models.list()], client.models.retrieve("starter").id)
print("refused:", failure(lambda: client.chat.completions.create(**ask, logit_bias={"5": 1})))
print("unknown:", failure(lambda: client.chat.completions.create(**{**ask, "model": "gpt-7"})))
print("too long:", failure(lambda: client.chat.completions.create(model="starter", messages=[
    {"role": "user", "content": "many words " * 300}])))
print("wrong key:", failure(lambda: client.with_options(api_key="wrong").models.list()))
print("full:", failure(lambda: client.chat.completions.create(**{**ask, "model": "full"})))
print("draining:", failure(lambda: client.chat.completions.create(**{**ask, "model": "closed"})))
try:
    for _ in client.chat.completions.create(**{**ask, "model": "fault"}, stream=True):
        pass
    print("fault: none")
except openai.APIError as e:
    print("fault:", e.message)
