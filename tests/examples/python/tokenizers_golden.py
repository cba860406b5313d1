#!/usr/bin/env python3
"""Asks Hugging Face's tokenizers and OpenAI's tiktoken for the ids that tests/examples/tokenizer.cpp demands.

    pip install tokenizers tiktoken
    python3 tests/examples/python/tokenizers_golden.py

Writes into tests/examples/data: a vocabulary of 380 tokens as tokenizer.json and as tiktoken's lines, one that splits
by another pattern, and texts with their ids. Made by tokenizers 0.23.3 and tiktoken 0.14.0.
"""

import base64
import json
import pathlib

import tiktoken
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).parent.parent / "data"
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
END = "<|endoftext|>"
BOOK = """In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness
was upon the face of the deep. And the Spirit of God moved upon the face of the waters. And God said, Let there be light:
and there was light. And God saw the light, that it was good: and God divided the light from the darkness. And God called
the light Day, and the darkness he called Night. And the evening and the morning were the first day. 1 2 3 10 100 1000
Größe, Länge, naïve façade, don't, we'll, they've, I'm, it's, he'd. Привет, мир! 日本語のテキスト。
"""
TEXTS = [
    "And God said, Let there be light: and there was light.",
    "don't we'll they've I'm it's he'd 'tis 'S",
    "Ge1:1 In  the   beginning\n\nGod\tcreated \n the heaven \r\n and",
    "   leading and trailing   ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa the the the thethethe",
    "1234567 3.14159 0x1f 10,000",
    "Größe naïve façade Ünïcödé",
    "Привет, мир! Ещё раз.",
    "日本語のテキスト。 中文，标点！",
    "x² ½ ٣٤ Ⅷ ①②",
    "emoji 😀👍🏽 and signs €£ ← ∑ «quoted»",
    "no\u00a0break\u2003em space\u3000wide\u2028line",
    f"one{END}two {END}{END}",
    "",
    " ",
    "combining e\u0301 and zero\u200bwidth",
    "!?!? ... --- (brackets) [more] {less} @#$%^&*",
]


def train(pre_tokenizer):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([BOOK], trainers.BpeTrainer(
        vocab_size=380, special_tokens=[], initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False))
    tokenizer.add_special_tokens([END])
    return tokenizer


def main():
    FOLDER.mkdir(exist_ok=True)
    byte_level = train(pre_tokenizers.ByteLevel(add_prefix_space=False))
    byte_level.save(str(FOLDER / "gpt2_style.json"))
    prefixed = Tokenizer.from_str(byte_level.to_str())
    prefixed.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    split = train(pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    split.save(str(FOLDER / "llama3_style.json"))

    to_bytes = {c: b for b, c in byte_characters().items()}
    vocabulary = byte_level.get_vocab(with_added_tokens=False)
    ranks = {bytes(to_bytes[c] for c in token): id for token, id in vocabulary.items()}
    lines = sorted(ranks.items(), key=lambda item: item[1])
    (FOLDER / "gpt2_style.tiktoken").write_text(
        "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in lines))
    tik = tiktoken.Encoding("small", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={})

    golden = [{"text": text, "gpt2_style": byte_level.encode(text).ids, "prefixed": prefixed.encode(text).ids,
               "llama3_style": split.encode(text).ids, "tiktoken": tik.encode_ordinary(text)} for text in TEXTS]
    (FOLDER / "tokenizers_golden.json").write_text(
        "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in golden) + "\n]\n")
    print(f"{len(golden)} texts, {len(ranks)} tokens")


def byte_characters():
    prints = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in prints]
    return {b: chr(b) for b in prints} | {b: chr(256 + i) for i, b in enumerate(others)}


if __name__ == "__main__":
    main()
