"""A conversation in the terminal: chat.py [MODEL]; Ctrl-C stops an answer, Ctrl-D leaves."""

import sys
from typing import Iterator

import sluice


def lines() -> Iterator[str]:
    while True:
        try:
            yield input("> " if sys.stdin.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            return


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "models/fable"
    with sluice.Model(path) as model:
        messages = []
        for line in lines():
            messages.append({"role": "user", "content": line})
            try:
                with model.chat_stream(messages) as stream:
                    for delta in stream:
                        print(delta.reasoning or delta.content, end="", flush=True)
                    messages.append(stream.result)
            except KeyboardInterrupt:
                messages.pop()
            except sluice.Error as error:
                print(f"chat.py: {error}", file=sys.stderr)
                messages.pop()
            print()


if __name__ == "__main__":
    main()
