// Prints what openai-node makes of a server: BASE_URL and KEY in the environment. See clients_test.go.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL + "/v1", apiKey: process.env.KEY, maxRetries: 0 });
const ask = { model: "starter", messages: [{ role: "user", content: "How do I reverse a list?" }], seed: 0 };
const print = (...parts) => console.log(parts.join(" "));

async function failure(call) {
  try {
    await call();
    return "no error";
  } catch (e) {
    return `${e.status} ${e.code}`;
  }
}

let r = await client.chat.completions.create(ask);
print("chat:", r.choices[0].message.content, r.choices[0].finish_reason, r.usage.completion_tokens);
let text = "", reasons = [], usage;
for await (const chunk of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) {
  for (const choice of chunk.choices) {
    text += choice.delta.content ?? "";
    if (choice.finish_reason) reasons.push(choice.finish_reason);
  }
  usage = chunk.usage ?? usage;
}
print("stream:", text, ...reasons, usage.completion_tokens);
r = await client.chat.completions.create({ ...ask, stop: [" reversed"] });
print("stop:", r.choices[0].message.content, r.choices[0].finish_reason);
r = await client.chat.completions.create({ ...ask, n: 2, max_tokens: 2 });
print("two:", ...r.choices.map((c) => `${c.index} ${c.message.content} ${c.finish_reason}`));
r = await client.chat.completions.create({ ...ask, max_tokens: 2, logprobs: true, top_logprobs: 2 });
print("logprobs:", ...r.choices[0].logprobs.content.map((t) => `${t.token}|${t.logprob.toFixed(3)}|${t.top_logprobs.length}`));
const helper = client.chat.completions.stream({ ...ask, max_tokens: 3 });
print("helper:", (await helper.finalChatCompletion()).choices[0].message.content);
r = await client.completions.create({ model: "starter", prompt: "One", max_tokens: 3, seed: 0 });
print("text:", r.choices[0].text, r.choices[0].finish_reason);
r = await client.responses.create({ model: "starter", input: "Hello", seed: 0 });
print("response:", r.output_text, r.status);
let last;
const events = client.responses.stream({ model: "starter", input: "Hello", seed: 0 });
for await (const event of events) last = event.type;
print("response stream:", (await events.finalResponse()).output_text, last);
print("models:", ...(await client.models.list()).data.map((m) => m.id), (await client.models.retrieve("starter")).id);
print("refused:", await failure(() => client.chat.completions.create({ ...ask, logit_bias: { 5: 1 } })));
print("unknown:", await failure(() => client.chat.completions.create({ ...ask, model: "gpt-7" })));
const long = [{ role: "user", content: "many words ".repeat(300) }];
print("too long:", await failure(() => client.chat.completions.create({ model: "starter", messages: long })));
print("wrong key:", await failure(() => client.withOptions({ apiKey: "wrong" }).models.list()));
print("full:", await failure(() => client.chat.completions.create({ ...ask, model: "full" })));
print("draining:", await failure(() => client.chat.completions.create({ ...ask, model: "closed" })));
try {
  for await (const _ of await client.chat.completions.create({ ...ask, model: "fault", stream: true })) ;
  print("fault: none");
} catch (e) {
  print("fault:", e.message);
}
