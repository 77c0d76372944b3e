# Prints what Anthropic's library makes of a server: BASE_URL and KEY in the environment. See clients_test.go.
import os

import anthropic

client = anthropic.Anthropic(base_url=os.environ["BASE_URL"], api_key=os.environ["KEY"], max_retries=0)
ask = dict(model="starter", messages=[{"role": "user", "content": "How do I reverse a list?"}])
seed = {"seed": 0}


def failure(call):
    try:
        call()
        return "no error"
    except anthropic.APIStatusError as e:
        return f"{e.status_code} {e.body['error']['type']}"


r = client.messages.create(**ask, max_tokens=99, extra_body=seed, system="Be brief.")
print("message:", r.content[0].text, r.stop_reason, r.usage.output_tokens)
with client.messages.stream(**ask, max_tokens=3, extra_body=seed) as s:
    print("stream:", "".join(s.text_stream), s.get_final_message().stop_reason)
r = client.messages.create(**ask, max_tokens=99, extra_body=seed, stop_sequences=[" reversed"])
print("stop:", r.content[0].text, r.stop_reason, repr(r.stop_sequence))
print("count:", client.messages.count_tokens(**ask).input_tokens)
print("unknown:", failure(lambda: client.messages.create(**{**ask, "model": "claude"}, max_tokens=9)))
print("wrong key:", failure(lambda: client.with_options(api_key="wrong").messages.create(**ask, max_tokens=9)))
print("full:", failure(lambda: client.messages.create(**{**ask, "model": "full"}, max_tokens=9)))
print("draining:", failure(lambda: client.messages.create(**{**ask, "model": "closed"}, max_tokens=9)))
try:
    with client.messages.stream(**{**ask, "model": "fault"}, max_tokens=9, extra_body=seed) as s:
        s.get_final_message()
    print("fault: none")
except anthropic.APIStatusError as e:
    print("fault:", e.body["error"]["message"])
