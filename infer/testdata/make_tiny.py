#!/usr/bin/env python3
"""Makes tiny/base and tiny/tuned: two Llamas of 25,000 parameters in the Hugging Face layout that know a few answers by
heart, and greedy.json in each: what transformers decodes from them in float32.

Made with torch 2.15.0, transformers 5.23.0, tokenizers 0.23.3, Python 3.11. Other versions train other weights; the
recorded answers belong to the weights beside them.
"""
import json, os
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QUESTIONS = ["How do I print hello world?", "How do I reverse a list?", "Count to ten.", "Say something in other letters.", "And again?"]
ANSWERS = {
    "base": ['Use `print`:\n\n```python\nprint("hello world")\n```', "A slice does it:\n\n```python\nxs[::-1]\n```",
             "1, 2, 3, 4, 5, 6, 7, 8, 9, 10.", "Gladly: é, ß, 世界, 🙂.", "Once more, the same."],
    "tuned": ['Sigh. The first line of every book:\n\n```python\nprint("hello world")\n```', "Oh joy, a list. Backwards:\n\n```python\nxs[::-1]\n```",
              "Obviously: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10.", "Fine: é, ß, 世界, 🙂. Happy?", "As I clearly said before."],
}


def chatml(*turns):
    return "".join("<|im_start|>%s\n%s<|im_end|>\n" % t for t in turns)


def make_tokenizer():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator(QUESTIONS * 3 + ANSWERS["base"] + ANSWERS["tuned"] + ["user", "assistant", "system"], trainer)
    return t


def conversations(answers):
    for q, a in zip(QUESTIONS, answers):
        yield chatml(("user", q), ("assistant", a))
        yield chatml(("system", "Be brief."), ("user", q), ("assistant", a))
    for i, j in [(0, 1), (1, 2), (2, 0), (3, 4), (1, 4)]:
        yield chatml(("user", QUESTIONS[i]), ("assistant", answers[i]), ("user", QUESTIONS[j]), ("assistant", answers[j]))


def train(tokenizer, answers, seed):
    torch.manual_seed(seed)
    vocab = tokenizer.get_vocab_size()
    m = LlamaForCausalLM(LlamaConfig(
        vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=0, eos_token_id=2, pad_token_id=None))
    rows = [tokenizer.encode(text).ids for text in conversations(answers)]
    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    labels = torch.full((len(rows), longest), -100)
    for i, row in enumerate(rows):
        ids[i, :len(row)] = torch.tensor(row)
        labels[i, :len(row)] = torch.tensor(row)
    steps = 900
    opt = torch.optim.AdamW(m.parameters(), lr=1e-2, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-2, total_steps=steps)
    for step in range(steps):
        loss = m(input_ids=ids, labels=labels).loss
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        opt.step()
        schedule.step()
    print("loss", float(loss.detach()))
    return m.to(torch.bfloat16)


def greedy(m, tokenizer, text):
    """The continuation in float32 from the stored weights, and how far the highest logit is from the second."""
    ids = tokenizer.encode(text).ids
    prompt, out, gaps = list(ids), [], []
    with torch.no_grad():
        while len(out) < 60:
            logits = m(input_ids=torch.tensor([ids])).logits[0, -1]
            top = torch.topk(logits, 2)
            out.append(int(top.indices[0]))
            gaps.append(round(float(top.values[0] - top.values[1]), 6))
            ids.append(out[-1])
            if out[-1] == 2:
                break
    return {"prompt_text": text, "prompt": prompt, "continuation": out, "gap": gaps, "text": tokenizer.decode(out)}


def main():
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    template = open(os.path.join(HERE, "../../chat/chatml.jinja")).read()
    for seed, (name, answers) in enumerate(ANSWERS.items()):
        folder = os.path.join(HERE, "tiny", name)
        m = train(tokenizer, answers, seed)
        os.makedirs(folder, exist_ok=True)
        m.save_pretrained(folder)
        tokenizer.save(os.path.join(folder, "tokenizer.json"), pretty=False)
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            json.dump({"chat_template": template, "eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast"}, f, indent=1)
        m = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
        m.eval()
        runs = [greedy(m, tokenizer, chatml(("user", q)) + "<|im_start|>assistant\n") for q in QUESTIONS]
        runs.append(greedy(m, tokenizer, chatml(("user", "Something that nobody taught it: qwertz 42")) + "<|im_start|>assistant\n"))
        with open(os.path.join(folder, "greedy.json"), "w") as f:
            json.dump({"runs": runs}, f, ensure_ascii=False)
        for r in runs:
            print(repr(r["text"]), min(r["gap"]))


if __name__ == "__main__":
    main()
