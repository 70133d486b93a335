"""Compares kvplane's greedy dense continuations with those of greedy_tokens.py.

python compare_greedy.py PROGRAM MODEL.gguf GREEDY.json [--error 0.5] [--pipeline configs/dense.toml] [-- MORE OPTIONS]
Runs PROGRAM run --model MODEL -p PIPELINE --prompt-ids-file F -n 64 --temperature 0 --json for each prompt and
prints the first token that differs, with the reference's gap between its two best logits there. A difference where
that gap is at most --error (the stated error of int8 activations, in logits) is a tie and ends that prompt's
comparison; a stop where the reference has an end token (--end-token, default 2) is agreement. Exit 1 if a prompt
differs otherwise.
"""
import argparse
import json
import subprocess
import sys
import tempfile


def run(args, ids, count):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(ids, file)
        file.flush()
        command = [args.program, "run", "--model", args.model, "-p", args.pipeline, "--prompt-ids-file", file.name,
                   "-n", str(count), "--temperature", "0", "--json", *args.more]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nexit code {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)["tokens"]


def first_difference(tokens, expected, end_token):  # None: they agree
    for i, token in enumerate(expected):
        if i == len(tokens):
            ended = token == end_token or (i and expected[i - 1] == end_token)
            return None if ended else i
        if tokens[i] != token:
            return i
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("program", "model", "greedy"):
        parser.add_argument(name)
    parser.add_argument("--error", type=float, default=0.5)
    parser.add_argument("--pipeline", default="configs/dense.toml")
    parser.add_argument("--end-token", type=int, default=2)
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)  # what follows goes to PROGRAM as it is
    args = parser.parse_args(sys.argv[1:end])
    args.more = sys.argv[end + 1:]
    same = ties = wrong = 0
    for prompt in json.load(open(args.greedy)):
        expected = prompt["tokens"]
        tokens = run(args, prompt["prompt_ids"], len(expected))
        at = first_difference(tokens, expected, args.end_token)
        if at is None:
            same += 1
            print(f"{prompt['name']}: the same {len(expected)} tokens")
            continue
        gap, got = prompt["gaps"][at], tokens[at] if at < len(tokens) else "a stop"
        tie = gap <= args.error
        ties, wrong = ties + tie, wrong + (not tie)
        print(f"{prompt['name']}: token {at} is {got}, not {expected[at]}; the reference's gap there is {gap} "
              f"({'within' if tie else 'OVER'} the error {args.error})")
    print(f"{same} the same, {ties} part at a tie, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
