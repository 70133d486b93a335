"""Multiple-choice items by the F32 PyTorch program, and how far `kvplane eval tasks --samples` is from it.

python task_likelihoods.py MODEL.gguf TASK.jsonl OUT.jsonl [--shots 0] [--limit 50]
python task_likelihoods.py compare OUT.jsonl SAMPLES.jsonl [--bytes TASK.jsonl]

The first writes a line an item: log-likelihood of every choice after its context, tokenised as the LM Evaluation Harness
does it (white space at the context's end goes to the choice; ids of the whole text; those after the context's count are
the choice's). Shots are the file's first items. The second prints the differences of one choice's log-likelihood, and, with
the task's file, accuracy of both.
"""
import argparse
import json
import sys

import numpy as np


def requests_of(item, before, encode):
    for i, choice in enumerate(item["choices"]):
        context = before + (item["contexts"][i] if "contexts" in item else item["context"])
        head = encode(context.rstrip(" \t\n\r\v\f"))
        whole = encode(context + choice)
        yield whole, min(len(head), len(whole) - 1)


def likelihood(model, ids, n_context, torch):
    hidden = model.forward(ids[:-1])[n_context - 1:]
    scores = model.logits(hidden).double().log_softmax(-1)
    return scores[torch.arange(len(hidden)), torch.tensor(ids[n_context:])].sum().item()


def compute(args):
    import torch
    from gguf_tokenizer import load_tokenizer
    from llama_torch import Llama
    torch.set_num_threads(1)
    model, tokenizer = Llama(args.model), load_tokenizer(args.model)
    encode = lambda text: tokenizer.encode(text).ids
    items = [(number, json.loads(line)) for number, line in enumerate(open(args.task, encoding="utf-8"), 1) if line.strip()]
    before = "".join((item["contexts"][item["gold"]] if "contexts" in item else item["context"])
                     + item["choices"][item["gold"]] + "\n\n" for _, item in items[:args.shots])
    end = len(items) if args.limit == 0 else args.shots + args.limit
    with open(args.out, "w", encoding="utf-8") as out, torch.no_grad():
        for number, item in items[args.shots:end]:
            sums = [likelihood(model, ids, n, torch) for ids, n in requests_of(item, before, encode)]
            out.write(json.dumps({"line": number, "gold": item["gold"], "log_likelihoods": sums}) + "\n")
            out.flush()


def accuracy(lines, lengths):
    plain = [int(np.argmax(line["log_likelihoods"])) == line["gold"] for line in lines]
    normed = [int(np.argmax(np.array(line["log_likelihoods"]) / lengths[line["line"]])) == line["gold"] for line in lines]
    return f"acc {100 * np.mean(plain):.1f}, acc_norm {100 * np.mean(normed):.1f}"


def compare(args):
    ours, theirs = ([json.loads(line) for line in open(file, encoding="utf-8")] for file in (args.out, args.samples))
    theirs = {line["line"]: line for line in theirs}
    both = [(line, theirs[line["line"]]) for line in ours if line["line"] in theirs]
    differences = np.abs(np.concatenate([np.subtract(a["log_likelihoods"], b["log_likelihoods"]) for a, b in both]))
    print(f"{len(both)} items, {len(differences)} choices: |difference| median {np.median(differences):.4f}, "
          f"99 % {np.percentile(differences, 99):.4f}, most {differences.max():.4f}")
    if args.bytes:
        lengths = {number: [len(choice.encode()) for choice in json.loads(line)["choices"]]
                   for number, line in enumerate(open(args.bytes, encoding="utf-8"), 1) if line.strip()}
        print("reference:", accuracy([a for a, _ in both], lengths))
        print("kvplane:  ", accuracy([b for _, b in both], lengths))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    if sys.argv[1:2] == ["compare"]:
        parser.add_argument("command"), parser.add_argument("out"), parser.add_argument("samples")
        parser.add_argument("--bytes")
        compare(parser.parse_args())
        return
    parser.add_argument("model"), parser.add_argument("task"), parser.add_argument("out")
    parser.add_argument("--shots", type=int, default=0), parser.add_argument("--limit", type=int, default=50)
    compute(parser.parse_args())


if __name__ == "__main__":
    main()
