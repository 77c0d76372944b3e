// Prints what ai-sdk makes of a server: BASE_URL and KEY in the environment. See clients_test.go.
import { generateText, streamText } from "ai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const provider = createOpenAICompatible({ name: "restyle", baseURL: process.env.BASE_URL + "/v1", apiKey: process.env.KEY,
  includeUsage: true });
const ask = { model: provider("starter"), prompt: "How do I reverse a list?", seed: 0, maxRetries: 0 };
const print = (...parts) => console.log(parts.join(" "));

async function failure(call) {
  try {
    await call();
    return "no error";
  } catch (e) {
    return `${e.statusCode} ${e.data?.error.code}`;
  }
}

let r = await generateText(ask);
print("chat:", r.text, r.finishReason, r.usage.outputTokens);
let s = streamText(ask), text = "";
for await (const part of s.textStream) text += part;
print("stream:", text, await s.finishReason, (await s.usage).outputTokens);
r = await generateText({ ...ask, stopSequences: [" reversed"] });
print("stop:", r.text, r.finishReason);
r = await generateText({ ...ask, model: provider.completionModel("starter"), prompt: "One", maxOutputTokens: 3 });
print("text:", r.text, r.finishReason);
print("unknown:", await failure(() => generateText({ ...ask, model: provider("gpt-7") })));
print("full:", await failure(() => generateText({ ...ask, model: provider("full") })));
print("draining:", await failure(() => generateText({ ...ask, model: provider("closed") })));
const faults = [];
const note = (e) => faults.push(e.message ?? e);
process.on("unhandledRejection", note);
try {
  const broken = streamText({ ...ask, model: provider("fault"), onError: ({ error }) => note(error) });
  for await (const part of broken.fullStream) ;
} catch (e) {
  note(e);
}
print("fault:", faults[0]);
